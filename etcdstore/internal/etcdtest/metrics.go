// SPDX-License-Identifier: Apache-2.0

package etcdtest

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Renewals is the server's counter of lease renewals.
const Renewals = "etcd_debugging_lease_renewed_total"

// Metric reads a counter of a member; one that was never counted is 0.
func (m *Member) Metric(ctx context.Context, name string) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.Addr+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("etcdtest: metrics of %s: %s", m.Addr, resp.Status)
	}
	var sum float64
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		key, value, ok := strings.Cut(lines.Text(), " ")
		if ok && (key == name || strings.HasPrefix(key, name+"{")) {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, err
			}
			sum += v
		}
	}
	return sum, lines.Err()
}
