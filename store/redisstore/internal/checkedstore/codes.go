// SPDX-License-Identifier: Apache-2.0

package checkedstore

// codes are the codes of all findings. They are stable.
var codes = []string{
	"cluster-client", "clock", "commands-forbidden", "commands-missing", "eviction", "eviction-unchecked", "grace-not-asked", "info-forbidden",
	"margin", "min-replicas", "permissions-unchecked", "proxy", "replica", "replicas-without-grace", "run-id", "scripts-restricted", "sentinel", "unchecked", "unused",
	"version", "version-unchecked",
}
