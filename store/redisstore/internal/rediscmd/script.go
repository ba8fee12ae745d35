// SPDX-License-Identifier: Apache-2.0

package rediscmd

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"regexp"
	"strconv"
	"strings"
)

// Script is a Lua script with the common part before it. One without a Text is
// called by its SHA only: it must be in the server already (package native, proof.go).
type Script struct {
	Name string
	Text string
	SHA  string

	head, body string
}

// Compose returns a script that carries the run id of its server, if it is not empty.
func Compose(name, head, runID, body string) *Script {
	text := head + "local RUN_ID = '" + runID + "'\n" + body
	sum := sha1.Sum([]byte(text))
	return &Script{Name: name, Text: text, SHA: hex.EncodeToString(sum[:]), head: head, body: body}
}

// In returns the script for one run id.
func (s *Script) In(runID string) *Script { return Compose(s.Name, s.head, runID, s.body) }

// SHAs returns the names by which a server knows scripts.
func SHAs(scripts []*Script) []string {
	shas := make([]string, len(scripts))
	for i, s := range scripts {
		shas[i] = s.SHA
	}
	return shas
}

// ErrNoScript is returned by Client.Eval for a script without a text that is not in
// the server.
var ErrNoScript = errors.New("redisstore: the script is not loaded")

// SameRun returns an error unless INFO is that of a server with the run id that keeps
// scripts to itself: before 7.0 they were replicated.
func SameRun(info, runID string) error {
	version := redisVersion.FindStringSubmatch(info)
	if version == nil {
		return errors.New("redisstore: INFO has no redis_version")
	}
	if major, _ := strconv.Atoi(version[1]); major < 7 {
		return errors.New("redisstore: servers before 7.0 replicate scripts")
	}
	if !strings.Contains(info, "run_id:"+runID+"\r") {
		return errors.New("redisstore: the server has another run id: it was restarted or replaced")
	}
	return nil
}

var redisVersion = regexp.MustCompile(`redis_version:(\d+)\.`)
