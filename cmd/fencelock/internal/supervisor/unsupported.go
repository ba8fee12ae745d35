// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package supervisor

// Stopping a command in time needs process groups and signals, so a build for another
// system ends here: the compiler prints the name, which nothing declares.
var _ = the_command_fencelock_runs_on_Linux_macOS_and_BSD_not_here
