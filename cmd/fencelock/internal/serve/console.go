// SPDX-License-Identifier: Apache-2.0

package serve

// staticRoutes are the files of the console.
func staticRoutes() []*route { return nil }
