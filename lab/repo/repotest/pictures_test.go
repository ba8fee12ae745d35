// SPDX-License-Identifier: Apache-2.0

package repotest

import (
	"encoding/xml"
	"io"
	"path"
	"strings"
	"testing"
)

// checkPictures: a drawing can be read by a screen reader, in the dark, and without
// a network.
func checkPictures(t tree) []complaint {
	var cs []complaint
	for _, p := range t.paths(".svg") {
		if path.Base(p) == "icon.svg" {
			continue // it says nothing that the name beside it does not
		}
		for _, what := range badPicture(string(t[p])) {
			cs = append(cs, complaint{p, 1, what})
		}
	}
	return cs
}

// badPicture says what is wrong with an SVG.
func badPicture(svg string) []string {
	role, count, labeled := "", map[string]int{}, ""
	texts := map[string]string{}
	d := xml.NewDecoder(strings.NewReader(svg))
	var open []string
	for {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			return []string{"it does not parse: " + err.Error()}
		}
		switch el := token.(type) {
		case xml.StartElement:
			name := el.Name.Local
			open = append(open, name)
			count[name]++
			for _, a := range el.Attr {
				switch {
				case len(open) == 1 && a.Name.Local == "role":
					role = a.Value
				case len(open) == 1 && a.Name.Local == "aria-labelledby":
					labeled = a.Value
				}
			}
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			texts[innermost(open)] += string(el)
		}
	}
	var bad []string
	complainIf := func(wrong bool, what string) {
		if wrong {
			bad = append(bad, what)
		}
	}
	complainIf(role != "img" || labeled == "", `give the svg role="img" and aria-labelledby with the ids of title and desc`)
	complainIf(strings.TrimSpace(texts["title"]) == "" || strings.TrimSpace(texts["desc"]) == "", "it has no <title> or no <desc>; say in words what it shows")
	complainIf(count["text"] == 0, "it has no <text>; letters drawn as paths cannot be read aloud")
	complainIf(!strings.Contains(texts["style"], "prefers-color-scheme: dark"), "its style has no colors for a dark page")
	complainIf(count["image"]+count["script"]+count["foreignObject"] > 0 || strings.Contains(svg, "@import"), "it loads or runs something; draw it with plain shapes")
	return bad
}

// innermost is the innermost open element.
func innermost(open []string) string {
	if len(open) == 0 {
		return ""
	}
	return open[len(open)-1]
}

func TestPictures(t *testing.T) { checkRepo(t, checkPictures) }

func TestPicturesComplain(t *testing.T) {
	const good = `<svg role="img" aria-labelledby="t d"><title id="t">T</title><desc id="d">D</desc>` +
		`<style>@media (prefers-color-scheme: dark) {}</style><text>x</text></svg>`
	for _, tt := range []struct{ old, new, want string }{
		{"", "", ""},
		{`role="img"`, "", "give the svg role"},
		{">D<", "> <", "it has no <title>"},
		{"<text>x</text>", "", "it has no <text>"},
		{"dark", "light", "its style has no"},
		{"<text>", "<script/><text>", "it loads or runs"},
		{"</svg>", "", "it does not parse"},
	} {
		files := treeOf("docs/a.svg", strings.Replace(good, tt.old, tt.new, 1))
		if tt.want == "" {
			wantComplaints(t, checkPictures, files)
			continue
		}
		wantComplaints(t, checkPictures, files, "docs/a.svg:1: "+tt.want)
	}
}
