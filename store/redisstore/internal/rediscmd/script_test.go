// SPDX-License-Identifier: Apache-2.0

package rediscmd

import "testing"

func TestSameRun(t *testing.T) {
	const run = "0123456789abcdef0123456789abcdef01234567"
	for info, want := range map[string]bool{
		"redis_version:7.0.15\r\nrun_id:" + run + "\r\n":                        true,
		"redis_version:7.2.4\r\nvalkey_version:8.0.1\r\nrun_id:" + run + "\r\n": true,
		"redis_version:10.0.0\r\nrun_id:" + run + "\r\n":                        true,
		"redis_version:6.2.14\r\nrun_id:" + run + "\r\n":                        false,
		"redis_version:7.0.15\r\nrun_id:" + run + "0\r\n":                       false,
		"redis_version:7.0.15\r\n":                                              false,
		"run_id:" + run + "\r\n":                                                false,
		"":                                                                      false,
	} {
		if err := SameRun(info, run); (err == nil) != want {
			t.Errorf("%q: %v", info, err)
		}
	}
}
