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

// Slots is how many hash slots a cluster has.
const Slots = 16384

// SlotOf returns the slot of a key: that of its hash tag, if it has one.
func SlotOf(key string) int {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, closed := strings.Cut(rest, "}"); closed && tag != "" {
			key = tag
		}
	}
	return int(CRC16(0, key)) % Slots
}

// crcs are the checksums of single bytes.
var crcs = func() (all [256]uint16) {
	for b := range all {
		crc := uint16(b) << 8
		for range 8 {
			top := crc & 0x8000
			crc <<= 1
			if top != 0 {
				crc ^= 0x1021
			}
		}
		all[b] = crc
	}
	return all
}()

// CRC16 continues the checksum from which a cluster computes the slot of a hash tag,
// CRC-16/XMODEM.
func CRC16[T string | []byte](crc uint16, text T) uint16 {
	for i := range len(text) {
		crc = crc<<8 ^ crcs[byte(crc>>8)^text[i]]
	}
	return crc
}
