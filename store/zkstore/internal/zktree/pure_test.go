// SPDX-License-Identifier: Apache-2.0

package zktree

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
)

func TestNamesComeBack(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"", "%", "%25", ".", "..", "a", "A", "a/b", "a%2Fb", "é", "\x00\xff", "日本 🔒", "pin", strings.Repeat("/", 512)} {
		node := escape(name)
		if back, ok := unescape(node); !ok || back != name {
			t.Errorf("%q became %q and came back as %q", name, node, back)
		}
		if strings.ContainsAny(node, "/. ") || node == "" {
			t.Errorf("%q became %q, which is no name of a node", name, node)
		}
		if other, twice := seen[node]; twice {
			t.Errorf("%q and %q both became %q", name, other, node)
		}
		seen[node] = name
	}
}

func TestNodesComeBack(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 2)
	for _, n := range []node{
		{session: id, seq: 1, weight: 1},
		{session: id, seq: math.MaxUint64, mode: driver.Shared, weight: math.MaxInt64, limit: math.MaxInt64, place: math.MaxInt32},
		{session: id, seq: 7, weight: 1, reentry: digest("me"), token: 1 << 60, place: math.MinInt32},
	} {
		n.name = placed(nativeLayout{}, n)
		if back, ok := parse(n.name); !ok || back != n {
			t.Errorf("%+v came back as %+v", n, back)
		}
	}
	for _, name := range []string{"", "pin", "a_1", id + ".1.x.1.0.-.-", id + ".1.x.1.0.-.-_x", id + ".x.x.1.0.-.-_1"} {
		if _, ok := parse(name); ok {
			t.Errorf("%q was taken for a claim", name)
		}
	}
}

// TestOrderSurvivesTheOverflow: the counter of ZooKeeper has 32 bits.
func TestOrderSurvivesTheOverflow(t *testing.T) {
	var names []string
	first := int32(math.MaxInt32 - 2)
	for i := range int32(6) {
		n := node{session: fmt.Sprintf("%032d", i), seq: 1, weight: 1, place: first + i}
		names = append(names, placed(nativeLayout{}, n))
	}
	rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	claims, _ := arrange(names, parse)
	for i, n := range claims {
		if n.session != fmt.Sprintf("%032d", i) {
			t.Fatalf("place %d has the claim of session %s", i, n.session)
		}
	}
}

func TestFirstNodeOfAClaimCounts(t *testing.T) {
	a := node{session: strings.Repeat("a", 32), seq: 1, weight: 1}
	var names []string
	for _, place := range []int32{9, 4, 6} {
		a.place = place
		names = append(names, placed(nativeLayout{}, a))
	}
	claims, extra := arrange(append(names, pinName), parse)
	if len(claims) != 1 || claims[0].place != 4 || len(extra) != 2 {
		t.Errorf("got %v and %v, want the one at place 4, and two more", claims, extra)
	}
}

func TestTokens(t *testing.T) {
	low, _ := tokenOf(0x100000001)
	next, _ := tokenOf(0x100000002)
	if low%driver.TokenStep != 0 || low <= 0 || next <= low {
		t.Errorf("tokens of neighbors are %v and %v", low, next)
	}
	// The core adds up to 255 to a token.
	for _, fence := range []driver.Token{fenceAbove(0x100000001), fenceBelow(0x100000002)} {
		if fence.Base() != fence || fence <= low+driver.TokenStep-1 || fence >= next {
			t.Errorf("the fence between %v and %v is %v", low, next, fence)
		}
	}
	if last, err := tokenOf(maxZxid - 1); err != nil || last <= 0 || last+2*driver.TokenStep-1 < 0 {
		t.Errorf("the last token is %v, %v", last, err)
	}
	for _, zxid := range []int64{0, -1, maxZxid, math.MaxInt64} {
		if token, err := tokenOf(zxid); err == nil {
			t.Errorf("the transaction %#x has token %v, want an error", zxid, token)
		}
	}
}

// TestGrantsStay: no claim loses its grant when claims leave, claims join at the end or a
// limit is stored, and the claims that are granted together keep to the rules.
func TestGrantsStay(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		var claims []node
		var lim limit
		held := map[uint64]bool{}
		for step := range 40 {
			switch {
			case len(claims) > 0 && r.IntN(2) == 0:
				i := r.IntN(len(claims))
				delete(held, claims[i].seq)
				claims = slices.Delete(claims, i, i+1)
			case r.IntN(8) == 0: // a stored limit, also a lower one
				ln := evaluate(claims, lim)
				lim = limit{Limit: r.Int64N(4)}
				if n := len(ln.granted); n > 0 {
					lim.Upto = &ln.granted[n-1].place
				}
			default:
				n := node{seq: uint64(step), place: int32(step), weight: 1 + r.Int64N(3), mode: driver.Mode(r.IntN(2))}
				if n.mode == driver.Shared && r.IntN(2) == 0 {
					n.limit = n.weight + r.Int64N(3)
				}
				claims = append(claims, n)
			}
			ln := evaluate(claims, lim)
			if len(ln.granted)+len(ln.waiting) != len(claims) || len(claims) > 0 && len(ln.granted) == 0 {
				t.Fatalf("seed %d: of %v are granted %v, waiting %v", seed, claims, ln.granted, ln.waiting)
			}
			for seq := range held {
				if _, ok := find(ln.granted, "", seq); !ok {
					t.Fatalf("seed %d: claim %d was granted and is not any more", seed, seq)
				}
			}
			if len(ln.granted) > 1 && slices.ContainsFunc(ln.granted, func(n node) bool { return n.mode == driver.Exclusive }) {
				t.Fatalf("seed %d: %v are granted together", seed, ln.granted)
			}
			for _, n := range ln.granted {
				held[n.seq] = true
			}
		}
	}
}

// TestWireFollowsTheStream: answers arrive in pieces of any size.
func TestWireFollowsTheStream(t *testing.T) {
	packet := func(words ...int32) []byte {
		var body []byte
		for _, w := range words {
			body = binary.BigEndian.AppendUint32(body, uint32(w))
		}
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
	}
	stream := slices.Concat(packet(0, 4000, 1, 2, 4, 5, 6, 7, 8), packet(-2, 0, 0, 0), packet(1, 0, 0, 0, 42), packet(2, 0, 0, 0))
	for size := 1; size < len(stream); size++ {
		sn := newSniffer(false, 6*time.Second)
		sn.closing.Store(2)
		conn := sn.wrap(&piecewise{from: bytes.NewReader(stream), size: size})
		buf := make([]byte, size)
		for read := 0; read < len(stream); {
			select {
			case <-sn.closed:
				t.Fatalf("pieces of %d: closed after %d bytes of %d", size, read, len(stream))
			default:
			}
			n, err := conn.Read(buf)
			must.OK(t, err)
			read += n
		}
		select {
		case <-sn.closed:
		default:
			t.Errorf("pieces of %d: the answer to the request to close was not seen", size)
		}
		if got := sn.agreed().Milliseconds(); got != 4000 {
			t.Errorf("pieces of %d: the timeout is %d ms, want 4000", size, got)
		}
	}
}

// piecewise is a connection that gives a few bytes at a time.
type piecewise struct {
	net.Conn
	from *bytes.Reader
	size int
}

func (p *piecewise) SetReadDeadline(time.Time) error { return nil }

func (p *piecewise) Read(b []byte) (int, error) { return p.from.Read(b[:min(len(b), p.size)]) }

func TestWireSwallowsPings(t *testing.T) {
	packet := func(words ...int32) []byte {
		p := binary.BigEndian.AppendUint32(nil, uint32(4*len(words)))
		for _, w := range words {
			p = binary.BigEndian.AppendUint32(p, uint32(w))
		}
		return p
	}
	for _, pings := range []bool{false, true} {
		client, server := net.Pipe()
		sn := newSniffer(pings, 6*time.Second)
		go func() {
			defer client.Close()
			conn := sn.wrap(client)
			conn.Write(packet(0, opPing)) // the greeting, whatever it looks like
			io.ReadFull(conn, make([]byte, 12))
			for _, p := range [][]byte{packet(-2, opPing), packet(1, 3), packet(-2, opPing), packet(9, opClose)} {
				if n, err := conn.Write(p); n != len(p) || err != nil {
					t.Errorf("write: %d, %v", n, err)
				}
			}
		}()
		io.ReadFull(server, make([]byte, 12))
		server.Write(packet(0, 4000))
		got, _ := io.ReadAll(server)
		want := 2
		if pings {
			want = 4
		}
		if len(got) != want*12 {
			t.Errorf("pings %v: %d bytes went through, want %d requests", pings, len(got), want)
		}
		if sn.closing.Load() != 9 {
			t.Errorf("the request to close has number %d, want 9", sn.closing.Load())
		}
	}
}

// TestWireWaitsForAnswers: an idle connection rests, one that owes an answer does not.
func TestWireWaitsForAnswers(t *testing.T) {
	seen := &deadlines{}
	sn := newSniffer(false, 6*time.Second)
	sn.timeout.Store(3000)
	conn := &sniffedConn{Conn: seen, sniffer: sn, sent: true}
	conn.SetReadDeadline(time.Now().Add(time.Hour))
	if left := time.Until(seen.last); left <= 0 || left > 2*time.Second {
		t.Errorf("a greeting may take %v, want a third of the timeout", left)
	}
	conn.SetReadDeadline(time.Time{})
	conn.greeted = true
	check := func(what string, want bool) {
		t.Helper()
		if seen.last.IsZero() == want {
			t.Errorf("%s: the deadline is %v", what, seen.last)
		}
	}
	conn.SetReadDeadline(time.Now())
	check("idle", false)
	request := make([]byte, 12)
	conn.Write(request)
	conn.Write(request)
	check("two requests", true)
	if left := time.Until(seen.last); left <= 0 || left > time.Second {
		t.Errorf("an answer may take %v, want a third of the timeout", left)
	}
	conn.follow([]byte{0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0})
	check("one answer", true)
	conn.follow([]byte{0, 0, 0, 8, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0})
	check("an event", true)
	conn.follow([]byte{0, 0, 0, 8, 0, 0, 0, 2, 0, 0, 0, 0})
	check("two answers", false)
}

// deadlines is a connection that notes the last one.
type deadlines struct {
	net.Conn
	last time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error { d.last = t; return nil }

func (d *deadlines) Write(p []byte) (int, error) { return len(p), nil }

// TestTryDoesNotTakeThePlaceOfTheFirstHolder: a claim that has no node has place 0, as the
// first claim of a lock has. A try beside it must find the lock busy without a node.
func TestTryDoesNotTakeThePlaceOfTheFirstHolder(t *testing.T) {
	ln := evaluate([]node{{session: "a", seq: 1, weight: 1}}, limit{})
	if ln.admits(node{session: "b", seq: 1, weight: 1}) {
		t.Error("an exclusive claim is admitted beside the first holder")
	}
	upto := int32(5)
	ln = evaluate([]node{{session: "a", seq: 1, mode: driver.Shared, weight: 1, limit: 2}}, limit{Limit: 1, Upto: &upto})
	if ln.admits(node{session: "b", seq: 1, mode: driver.Shared, weight: 1, limit: 2}) {
		t.Error("a claim that comes after the limit was stored is taken for one from before")
	}
}
