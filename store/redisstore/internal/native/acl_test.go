// SPDX-License-Identifier: Apache-2.0

package native

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
)

// directly are the key commands that the store sends outside of scripts.
var directly = []string{"hmget", "llen", "lmove", "lrem", "rpush", "zadd", "zcount", "zrangebyscore"}

// TestKeyCommands: the ACL allows what the scripts call, and nothing else.
func TestKeyCommands(t *testing.T) {
	paths, err := filepath.Glob("lua/*.lua")
	if err != nil || len(paths) == 0 {
		t.Fatal("no scripts found: ", err)
	}
	calls := regexp.MustCompile(`\bp?call\(\s*'([A-Z]+)'`)
	used := slices.Clone(directly)
	for _, p := range paths {
		text, err := os.ReadFile(p)
		must.OK(t, err)
		for _, m := range calls.FindAllStringSubmatch(string(text), -1) {
			used = append(used, strings.ToLower(m[1]))
		}
	}
	slices.Sort(used)
	used = slices.Compact(used)
	allowed := append([]string{"info", "scan", "time"}, keyCommands...)
	for _, c := range used {
		if !slices.Contains(allowed, c) {
			t.Errorf("scripts call %s: add it to keyCommands and to the line in docs/redis.md", c)
		}
	}
	for _, c := range keyCommands {
		if !slices.Contains(used, c) {
			t.Errorf("nothing calls %s any more: remove it from keyCommands and from the line in docs/redis.md", c)
		}
	}
}
