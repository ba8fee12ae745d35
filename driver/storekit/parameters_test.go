// SPDX-License-Identifier: Apache-2.0

package storekit_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver/storekit"
)

type settings struct {
	namespace string
	maxTTL    time.Duration
	buckets   int
	grace     bool
	accept    []string
}

func (s *settings) parameters() storekit.Parameters {
	return storekit.Parameters{
		"namespace": storekit.Text(&s.namespace), "max_ttl": storekit.Duration(&s.maxTTL), "buckets": storekit.Number(&s.buckets),
		"grace": storekit.Bool(&s.grace), "accept": storekit.List(&s.accept),
	}
}

func TestParametersAreRead(t *testing.T) {
	var s settings
	err := s.parameters().Read("x", "namespace=a%2Fb&max_ttl=90s&buckets=4&grace=true&accept=clock,proxy")
	if err != nil || s.namespace != "a/b" || s.maxTTL != 90*time.Second || s.buckets != 4 || !s.grace || !slices.Equal(s.accept, []string{"clock", "proxy"}) {
		t.Errorf("got %+v, %v", s, err)
	}
}

// TestParametersOfOthersAreLeft: the rest of the URL is as it was.
func TestParametersOfOthersAreLeft(t *testing.T) {
	for url, want := range map[string]string{
		"postgres://u:p@h/d?sslmode=a%2Fb&grace=true&x=1&": "postgres://u:p@h/d?sslmode=a%2Fb&x=1",
		"postgres://u:p@h/d?grace=true":                    "postgres://u:p@h/d",
		"postgres://u:p@h/d":                               "postgres://u:p@h/d",
	} {
		var s settings
		rest, err := s.parameters().Split("x", url)
		if err != nil || rest != want || s.grace != strings.Contains(url, "grace") {
			t.Errorf("%s: got %q, %+v, %v", url, rest, s, err)
		}
	}
	var s settings
	if _, err := s.parameters().Split("x", "postgres://h/d?migrate=true"); err == nil || !strings.Contains(err.Error(), "migrate in the URL does nothing") {
		t.Errorf("got %v for a parameter that the store does not have", err)
	}
}

// TestParameterWithTwoValuesIsAnError: neither of them wins. A grace=true behind a grace=false would otherwise do nothing.
func TestParameterWithTwoValuesIsAnError(t *testing.T) {
	const want = "x: the URL has the parameter grace twice, with different values; leave one of them out"
	for query, wrong := range map[string]bool{"grace=false&max_ttl=2s&grace=true": true, "grace=true&grace=true": false} {
		var s settings
		if err := s.parameters().Read("x", query); (err != nil) != wrong || wrong && err.Error() != want {
			t.Errorf("%s: got %+v, %v", query, s, err)
		}
	}
}

// TestWrongParameterIsNamed: with the one that was meant, and without what may be a secret.
func TestWrongParameterIsNamed(t *testing.T) {
	for query, want := range map[string]string{
		"namspace=hunter2":    `x: the URL has the unknown parameter "namspace"; did you mean namespace?`,
		"password=hunter2":    `x: the URL has the unknown parameter "password"; there are accept, buckets, grace, max_ttl, namespace`,
		"hunter2":             "x: the URL has a parameter that is unknown; there are accept, buckets, grace, max_ttl, namespace",
		"migrate=hunter2":     "x: the parameter migrate in the URL does nothing in this store; there are accept, buckets, grace, max_ttl, namespace",
		"max_ttl=hunter2":     "x: the parameter max_ttl in the URL takes a time with its unit, such as 500ms or 30s",
		"grace=hunter2":       "x: the parameter grace in the URL takes true or false",
		"buckets=hunter2":     "x: the parameter buckets in the URL takes a whole number",
		"namespace=hunter2%z": "x: the part of the URL after ? is not name=value&name=value",
	} {
		if err := new(settings).parameters().Read("x", query); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", query, err, want)
		}
	}
	if err := (storekit.Parameters{}).Read("x", "namspace=1"); err == nil {
		t.Error("a store without parameters accepts one")
	}
}

func TestMisplaced(t *testing.T) {
	for url, want := range map[string]bool{"redis://u:p@h/1?x=y": false, "redis://u:a@b@h": false, "redis://u:p/q@h": true, "redis://u:p?q@h": true, "redis://h#@": true, "": false} {
		if got := storekit.Misplaced(url); got != want {
			t.Errorf("%s: got %t", url, got)
		}
	}
}

// TestOptionsAndURLMustNotDiffer: neither of them wins, and the same value in both is fine.
func TestOptionsAndURLMustNotDiffer(t *testing.T) {
	read := func(s *settings, query string) error {
		err := storekit.Parameters{
			"namespace": storekit.Option("Namespace", &s.namespace, storekit.Text), "grace": storekit.Option("Grace", &s.grace, storekit.Bool),
			"max_ttl": storekit.Option("MaxTTL", &s.maxTTL, storekit.Duration), "accept": storekit.Option("Accept", &s.accept, storekit.List),
		}.Read("x", query)
		if err != nil {
			return err
		}
		return storekit.Part("x", "number", "Buckets", &s.buckets, 3)
	}
	for query, field := range map[string]string{
		"namespace=hunter2": "parameter namespace in the URL and Options.Namespace", "grace=false": "parameter grace in the URL and Options.Grace",
		"max_ttl=2s": "parameter max_ttl in the URL and Options.MaxTTL", "accept=clock": "parameter accept in the URL and Options.Accept",
		"": "number in the URL and Options.Buckets",
	} {
		s := settings{namespace: "mine", maxTTL: time.Second, buckets: 4, grace: true, accept: []string{"proxy"}}
		if err, want := read(&s, query), "x: the "+field+" differ; leave one of them out"; err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", query, err, want)
		}
	}
	const query = "namespace=mine&max_ttl=1s&grace=true&accept=clock,proxy"
	for _, s := range []settings{{}, {namespace: "mine", maxTTL: time.Second, buckets: 3, grace: true, accept: []string{"clock", "proxy"}}} {
		if err := read(&s, query); err != nil || s.namespace != "mine" || s.maxTTL != time.Second || s.buckets != 3 || !s.grace || len(s.accept) != 2 {
			t.Errorf("got %+v, %v", s, err)
		}
	}
	s := settings{namespace: "mine"}
	if err := read(&s, "max_ttl=hunter2"); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
}
