// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/leases"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

// TestAcquisitionInAGracePeriodIsAnsweredWithRetryAfter: a client can tell a store that grants nothing for now from a lock that is held.
func TestAcquisitionInAGracePeriodIsAnsweredWithRetryAfter(t *testing.T) {
	t.Parallel()
	store := memstore.New(&memstore.Options{Grace: true, MaxTTL: 20 * time.Second})
	store.Reset()
	ls := newLockers(t, store, 1)
	ann := ls.client("ann", 6*time.Second)
	text, err := json.Marshal(acquireRequest{Session: ann.session, ID: "1", Lock: "x"})
	must.OK(t, err)
	req, err := http.NewRequestWithContext(t.Context(), "POST", ls.servers[0].web.URL+"/v1/acquire", bytes.NewReader(text))
	must.OK(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+ls.tokens["ann"])
	resp, err := http.DefaultClient.Do(req)
	must.OK(t, err)
	defer resp.Body.Close()
	var got problem
	must.OK(t, json.NewDecoder(resp.Body).Decode(&got))
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if resp.StatusCode != http.StatusServiceUnavailable || got.Code != "grace" || err != nil || seconds < 1 || seconds > 20 {
		t.Errorf("got %d, %+v, Retry-After %q", resp.StatusCode, got, resp.Header.Get("Retry-After"))
	}
	ann.want(leases.Waiting, "2", "x", time.Millisecond)
}
