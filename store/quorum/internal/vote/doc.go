// SPDX-License-Identifier: Apache-2.0

// Package vote decides for a quorum: whether a claim has won, with which token and on
// which nodes; whether a renewal counts; when to poll again; which clocks are too far
// apart. Slot is a claim on one node and NodeSession the session there: what every answer
// changes, and what is to be sent next. Every function is a function of its arguments.
// Package quorum acts on them, and package model searches every order of events.
//
// A node's vote is the token it granted a claim with. A claim has won when enough
// nodes granted it with one and the same token:
//
//	node    a    b    c    d    e      needed 3
//	vote   768  768  768   –    –      won, token 768, whatever d and e say
//	vote   768  512  768   –    –      wait a little: d or e may say 768 too
//	vote   768  512 1024  768   no     split: lift those that granted above 1024
//	vote   768  no   no    no   –      lost: give 768 back
//
// Why one and the same: a node gives out a token of a name once and never a lower
// one later, and any two sets of enough nodes share a node. So no two claims can
// win with the same token, and a claim that wins later wins with a higher one.
package vote
