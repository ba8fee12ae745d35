// SPDX-License-Identifier: Apache-2.0

package sim

// checkNotice: after an answer that says that a session has ended, or that refuses its
// renewal, the client does not go on with the session: its holders are notified at
// that instant.
func checkNotice(v *view, bad complain) {
	for _, e := range v.h.Events {
		if e.Kind != Rejected {
			continue
		}
		if over, is := v.sessionsOver[e.Session]; !is || over.at > e.At {
			bad(nil, "c%d got an answer at %v that ends its session %s, and went on with it: %v", e.Client, e.At, e.Session, e.Err)
		}
	}
}
