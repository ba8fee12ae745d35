// SPDX-License-Identifier: Apache-2.0

// Command caddy is Caddy with the module caddylock and the store of Redis, as xcaddy builds
// it by the page of caddylock. Its test runs two of them.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
	_ "github.com/fencelock/fencelock/adapters/caddylock"
	_ "github.com/fencelock/fencelock/store/redisstore"
)

func main() { caddycmd.Main() }
