// SPDX-License-Identifier: Apache-2.0

package candidate

// All are the candidates.
var All = []*Candidate{
	BareRueidis, BareGoRedis, PingPong,
	FencelockRueidis, FencelockGoRedis,
	RueidislockDefault, RueidislockFast,
}
