// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
)

var errOpened = errors.New("opened")

// TestSchemeIsRegisteredOnce: two stores for one scheme are a mistake of the program,
// and so is a scheme that no URL can have.
func TestSchemeIsRegisteredOnce(t *testing.T) {
	open := func(_ context.Context, url string, _ OpenOptions) (OpenedStore, error) { return nil, errOpened }
	Register(open, "test-once")
	if _, err := OpenStore(t.Context(), "test-once://h", OpenOptions{}); !errors.Is(err, errOpened) {
		t.Errorf("got %v, want what the opener returned", err)
	}
	for scheme, opener := range map[string]Opener{"test-once": open, "Upper": open, "a b": open, "test-nil": nil} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q was registered", scheme)
				}
			}()
			Register(opener, scheme)
		}()
	}
}

// TestUnknownSchemeNamesTheImport: the error of a program that does not link a store says
// what to add, and shows no more of the URL than its scheme.
func TestUnknownSchemeNamesTheImport(t *testing.T) {
	for url, want := range map[string]string{
		"redis://u:hunter2@h":             `import _ "github.com/fencelock/fencelock/store/redisstore"`,
		"valkeys-cluster://u:hunter2@h":   `import _ "github.com/fencelock/fencelock/store/redisstore"`,
		"quorum://u:hunter2@a,b,c":        `import _ "github.com/fencelock/fencelock/store/redisstore/redisquorum"`,
		"postgres://u:hunter2@h/d":        `import _ "github.com/fencelock/fencelock/store/sqlstore"`,
		"nonsense://u:hunter2@h":          "unknown scheme nonsense:// in the store's URL; ",
		"reddis://u:hunter2@h":            "unknown scheme reddis:// in the store's URL; did you mean redis://?",
		"postgress://u:hunter2@h":         "did you mean postgres://?",
		"u:hunter2@h:6379":                "no scheme",
		"redis:u:hunter2@h://x":           "does not begin with a known scheme",
		"":                                "no scheme",
		"Redis://u:hunter2@h":             "does not begin with a known scheme",
		"nonsense://h?a=redis://:hunter2": "unknown scheme nonsense://",
	} {
		_, err := OpenStore(t.Context(), url, OpenOptions{})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") || !strings.HasPrefix(err.Error(), "fencelock: ") {
			t.Errorf("%s: got %v, want %q and no secret", url, err, want)
		}
	}
}

// TestImportsRegisterTheirSchemes: the package that the error names to import exists and
// registers the scheme.
func TestImportsRegisterTheirSchemes(t *testing.T) {
	for _, s := range schemes {
		files, err := filepath.Glob(filepath.Join("..", "store", s.pkg, "*.go"))
		must.OK(t, err)
		if !slices.ContainsFunc(files, func(file string) bool {
			text, err := os.ReadFile(file)
			must.OK(t, err)
			return !strings.HasSuffix(file, "_test.go") && strings.Contains(string(text), `driver.Variants("`+s.first+`")`)
		}) {
			t.Errorf("no file of %s registers the variants of %s", s.pkg, s.first)
		}
	}
}
