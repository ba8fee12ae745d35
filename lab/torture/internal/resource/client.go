// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/httpfence"
	"github.com/fencelock/fencelock/lab/torture/internal/history"
)

// Client talks to a resource.
type Client struct {
	// Base is the address, as http://host:port.
	Base string
	// Who is the name of the client in the history.
	Who string
}

// Read returns the list of a register. The fence of a fenced one is raised to
// the token before.
func (c *Client) Read(ctx context.Context, register, lock string, token int64) ([]string, error) {
	return c.do(ctx, http.MethodGet, register, lock, token, nil)
}

// Append writes a list that was read, with a value at its end.
func (c *Client) Append(ctx context.Context, register, lock string, token int64, read []string, value string) error {
	w := Write{Who: c.Who, Value: value, List: append(read[:len(read):len(read)], value)}
	_, err := c.do(ctx, http.MethodPut, register, lock, token, &w)
	return err
}

// Finish makes the resource record its lists.
func (c *Client) Finish(ctx context.Context) error {
	_, err := c.do(ctx, http.MethodGet, "final", "", 0, nil)
	return err
}

func (c *Client) do(ctx context.Context, method, path, lock string, token int64, w *Write) ([]string, error) {
	var body bytes.Buffer
	if w != nil {
		if err := json.NewEncoder(&body).Encode(w); err != nil {
			return nil, err
		}
	}
	target := c.Base + "/" + path + "?" + url.Values{"lock": {lock}, "who": {c.Who}}.Encode()
	req, err := http.NewRequestWithContext(ctx, method, target, &body)
	if err != nil {
		return nil, err
	}
	if path == history.Fenced {
		m := fence.Mark{Lock: lock, Token: fencelock.Token(token), Holder: c.Who}
		req.Header.Set(httpfence.Header, httpfence.Format(m))
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if err := httpfence.Error(resp); err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the resource answered %s", resp.Status)
	}
	if path == "final" {
		return nil, nil
	}
	var list []string
	err = json.NewDecoder(resp.Body).Decode(&list)
	return list, err
}
