// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/spf13/cobra"

// storesTopic is "fencelock help stores".
func storesTopic() *cobra.Command {
	return &cobra.Command{Use: "stores", Short: "How to name the store: URLs, environment, configuration file", Long: storesHelp()}
}

// exitCodesTopic is "fencelock help exit-codes".
func exitCodesTopic() *cobra.Command {
	return &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: `fencelock run ends with the exit code of its command, or 128+N if signal N ended
the command. What happened instead has its own codes:

    0  it worked; with --once-per also: it had run already
    1  doctor or why found something; in other commands than run also what has no
       other code
   64  the command line or the configuration is wrong, or the store cannot do what
       is asked; nothing was done
   69  the store did not answer
   75  not acquired: another client has the lock (choose another code with -E)
   76  lost: the lock was lost, or about to be, and the command was ended; or the
       lock was broken by an operator while the command ran
   79  not acquired: the store is new or has lost its data, and grants no new lock
       until every earlier lease must have ended (a grace period); try again later
  125  fencelock itself failed
  126  the command cannot be executed
  127  the command was not found
128+N  ended by signal N: the command, or fencelock while it waited

A command may itself use one of these codes. Where that matters use --status-fd or
--status-file, which report in JSON what happened.`}
}
