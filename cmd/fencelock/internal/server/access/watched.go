// SPDX-License-Identifier: Apache-2.0

package access

import (
	"os"
	"sync"
	"time"
)

// checkEvery is how soon a change of the file is noticed.
const checkEvery = time.Second

// Watched is a file of users that is read again when it changes, so that a user can be
// removed without a restart.
type Watched struct {
	path   string
	report func(error)

	mu      sync.Mutex
	policy  *Policy
	info    os.FileInfo
	checked time.Time
}

// Watch reads a file of users. report is called when the changed file is wrong: the users
// from before stay then.
func Watch(path string, report func(error)) (*Watched, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	p, err := ReadFile(path)
	if err != nil {
		return nil, err
	}
	return &Watched{path: path, report: report, policy: p, info: info, checked: time.Now()}, nil
}

// Policy returns the users of the file.
func (w *Watched) Policy() *Policy {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.checked) < checkEvery {
		return w.policy
	}
	w.checked = time.Now()
	info, err := os.Stat(w.path)
	if err == nil && os.SameFile(info, w.info) && info.ModTime().Equal(w.info.ModTime()) && info.Size() == w.info.Size() {
		return w.policy
	}
	var p *Policy
	if err == nil {
		p, err = ReadFile(w.path)
	}
	if err != nil {
		w.report(err)
		return w.policy
	}
	w.policy, w.info = p, info
	return p
}
