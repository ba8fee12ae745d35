// SPDX-License-Identifier: Apache-2.0

package worker

// sampler keeps some of many values, spread evenly over the order they came in: a
// fast candidate does a million in a second, and they travel as text.
type sampler struct {
	kept   []float64
	stride int // one of so many is kept
	skip   int // so many come before the next that is kept
	seen   int
}

// most is how many values a sampler keeps.
const most = 1 << 12

func newSampler() *sampler { return &sampler{kept: make([]float64, 0, most), stride: 1} }

func (s *sampler) add(v float64) {
	s.seen++
	if s.skip > 0 {
		s.skip--
		return
	}
	if len(s.kept) == most { // keep every other one, of those to come as well
		for i := range most / 2 {
			s.kept[i] = s.kept[2*i]
		}
		s.kept = s.kept[:most/2]
		s.stride *= 2
	}
	s.kept = append(s.kept, v)
	s.skip = s.stride - 1
}
