// SPDX-License-Identifier: Apache-2.0

//go:build unix

package server

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/cmd/fencelock/internal/graph"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/lockview"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/access"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/leases"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/lockfeed"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"go.yaml.in/yaml/v3"
)

// description is what the test reads of openapi.yaml.
type description struct {
	OpenAPI    string                          `yaml:"openapi"`
	Paths      map[string]map[string]operation `yaml:"paths"`
	Components struct {
		Schemas map[string]*schema `yaml:"schemas"`
	} `yaml:"components"`
}

type operation struct {
	Parameters []struct {
		Name string `yaml:"name"`
	} `yaml:"parameters"`
	Security  *[]any         `yaml:"security"`
	Body      any            `yaml:"requestBody"`
	Responses map[string]any `yaml:"responses"`
}

type schema struct {
	Ref        string             `yaml:"$ref"`
	Type       string             `yaml:"type"`
	Required   []string           `yaml:"required"`
	Properties map[string]*schema `yaml:"properties"`
	Items      *schema            `yaml:"items"`
	Enum       []string           `yaml:"enum"`
}

// described are the Go types of the schemas.
var described = map[string]reflect.Type{
	"BreakRequest": reflect.TypeFor[breakRequest](), "Broken": reflect.TypeFor[lockview.Broken](), "Problem": reflect.TypeFor[problem](), "Identity": reflect.TypeFor[identity](), "Grant": reflect.TypeFor[access.Grant](),
	"LockList": reflect.TypeFor[lockList](), "Row": reflect.TypeFor[row](), "Holder": reflect.TypeFor[lockview.Holder](),
	"Waiter": reflect.TypeFor[lockview.Waiter](), "LockDetail": reflect.TypeFor[lockDetail](), "Span": reflect.TypeFor[lockfeed.Span](),
	"WaitGraph": reflect.TypeFor[waitGraph](), "GraphLock": reflect.TypeFor[graphLock](), "Step": reflect.TypeFor[graph.Step](),
	"SessionList": reflect.TypeFor[sessionList](), "Session": reflect.TypeFor[session](), "StoreHealth": reflect.TypeFor[storeHealth](),
	"Guarantees": reflect.TypeFor[lockview.Guarantees](), "Finding": reflect.TypeFor[driver.Finding](), "PollHealth": reflect.TypeFor[pollHealth](),
	"Health": reflect.TypeFor[health](), "SessionRequest": reflect.TypeFor[sessionRequest](), "SessionMade": reflect.TypeFor[sessionMade](),
	"AcquireRequest": reflect.TypeFor[acquireRequest](), "RenewRequest": reflect.TypeFor[renewRequest](), "ReleaseRequest": reflect.TypeFor[releaseRequest](),
	"NamedLease": reflect.TypeFor[leases.Named](), "Lease": reflect.TypeFor[leases.Answer](), "LeaseList": reflect.TypeFor[leaseList](),
}

func readDescription(t *testing.T) *description {
	t.Helper()
	var d description
	must.OK(t, yaml.Unmarshal(openapiText, &d))
	return &d
}

// TestDescriptionHasTheCalls: openapi.yaml has every call with its parameters, and no others.
func TestDescriptionHasTheCalls(t *testing.T) {
	d := readDescription(t)
	if d.OpenAPI != "3.1.0" {
		t.Errorf("openapi: %s", d.OpenAPI)
	}
	var want, got []string
	for _, r := range apiRoutes() {
		method := strings.ToLower(r.method)
		if method == "lock" || method == "unlock" { // methods that OpenAPI 3.1 does not know
			method = "x-" + method
		}
		call := method + " " + r.path
		want = append(want, call)
		op, ok := d.Paths[r.path][method]
		if !ok {
			continue
		}
		var params []string
		for _, p := range op.Parameters {
			params = append(params, p.Name)
		}
		if !slices.Equal(params, r.params) {
			t.Errorf("%s: described with %q, takes %q", call, params, r.params)
		}
		if public := op.Security != nil && len(*op.Security) == 0; public != r.public {
			t.Errorf("%s: described as public: %v, is public: %v", call, public, r.public)
		}
		if (op.Body != nil) != (r.method == "POST" || strings.HasPrefix(method, "x-")) {
			t.Errorf("%s: a body is described: %v", call, op.Body != nil)
		}
		if op.Responses["200"] == nil || op.Responses["default"] == nil {
			t.Errorf("%s: describe 200 and default", call)
		}
	}
	for path, methods := range d.Paths {
		for method := range methods {
			got = append(got, method+" "+path)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		t.Errorf("described:\n%s\nserved:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestDescriptionHasTheFields: every schema has the fields of its Go type, with their
// types, and requires those that are never left out.
func TestDescriptionHasTheFields(t *testing.T) {
	d := readDescription(t)
	for name, s := range d.Components.Schemas {
		if s.Type != "object" {
			continue
		}
		typ := described[name]
		if typ == nil {
			t.Errorf("%s: no Go type is known for it; add it to described", name)
			continue
		}
		fields := fieldsOf(typ)
		if got, want := slices.Sorted(maps.Keys(s.Properties)), slices.Sorted(maps.Keys(fields)); !slices.Equal(got, want) {
			t.Errorf("%s: described %q, encoded %q", name, got, want)
			continue
		}
		for key, f := range fields {
			if required := slices.Contains(s.Required, key); required == f.optional {
				t.Errorf("%s.%s: required is %v, can be left out is %v", name, key, required, f.optional)
			}
			if got := d.kind(s.Properties[key]); got != f.kind {
				t.Errorf("%s.%s: described as %s, encoded as %s", name, key, got, f.kind)
			}
		}
	}
	for name := range described {
		if d.Components.Schemas[name] == nil {
			t.Errorf("%s is not described", name)
		}
	}
}

// kind is the type of a schema.
func (d *description) kind(s *schema) string {
	if s.Ref != "" {
		return d.kind(d.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")])
	}
	return s.Type
}

type field struct {
	kind     string
	optional bool
}

// fieldsOf are the fields of a type as encoding/json writes them.
func fieldsOf(typ reflect.Type) map[string]field {
	all := map[string]field{}
	for f := range typ.Fields() {
		if f.Anonymous {
			maps.Copy(all, fieldsOf(f.Type))
			continue
		}
		tag := f.Tag.Get("json")
		if tag == "-" || tag == "" {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		all[name] = field{kindOf(f.Type, strings.Contains(options, "string")), strings.Contains(options, "omitempty")}
	}
	return all
}

func kindOf(typ reflect.Type, text bool) string {
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	_, marshals := reflect.PointerTo(typ).MethodByName("MarshalText")
	switch {
	case text || marshals:
		return "string"
	case typ.Kind() == reflect.Struct || typ.Kind() == reflect.Map:
		return "object"
	case typ.Kind() == reflect.Slice:
		return "array"
	case typ.Kind() == reflect.Bool:
		return "boolean"
	case typ.Kind() == reflect.Float64:
		return "number"
	case typ.Kind() == reflect.String:
		return "string"
	}
	return "integer"
}
