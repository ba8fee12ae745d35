// SPDX-License-Identifier: Apache-2.0

package repotest

import (
	"bytes"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// machinePath finds an absolute path of a machine. It is put together
// from pieces, so that this file does not contain what it looks for.
var machinePath = regexp.MustCompile(`(?:^|[^\w./~$}-]|//)(/(?:` + strings.Join([]string{"work", "root", "home", "Users"}, "|") + `)/)`)

// registryHosts are hosts that packages and images are fetched from. Which of
// them to use is the machine's business; they go stale in a file.
var registryHosts = []string{
	"proxy.golang" + ".org", "sum.golang" + ".org", "goproxy" + ".io", "goproxy" + ".cn",
	"registry.npmjs" + ".org", "pypi" + ".org", "pythonhosted" + ".org",
	"docker" + ".io", "ghcr" + ".io", "gcr" + ".io", "quay" + ".io", "deb.debian" + ".org",
	"jfrog" + ".io", "artifact" + "ory",
}

// machineHosts returns the hosts that this machine fetches from, whatever they
// are called: they must not be in a file either.
func machineHosts() []string {
	out, _ := exec.Command("go", "env", "GOPROXY", "GOSUMDB").Output()
	text := string(out)
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "PIP_INDEX_URL", "NPM_CONFIG_REGISTRY"} {
		text += " " + os.Getenv(name)
	}
	return hostsIn(text)
}

// hostsIn returns the hosts of the URLs in a text, local ones left out.
func hostsIn(text string) []string {
	var hosts []string
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(", |\n", r) }) {
		u, err := url.Parse(word)
		if err == nil && strings.Contains(u.Hostname(), ".") && !strings.HasPrefix(u.Hostname(), "127.") {
			hosts = append(hosts, u.Hostname())
		}
	}
	return hosts
}

// checkPrivate: nothing in the repository shows on which machine it was made.
func checkPrivate(t tree) []complaint {
	hosts := append(machineHosts(), registryHosts...)
	var cs []complaint
	for _, p := range t.paths("") {
		if bytes.ContainsRune(t[p], 0) {
			continue // not text
		}
		for i, l := range t.lines(p) {
			if m := machinePath.FindStringSubmatch(l); m != nil {
				cs = append(cs, complaint{p, i + 1, sprint("%q is a path of one machine; make it relative", m[1])})
			}
			for _, h := range hosts {
				if strings.Contains(strings.ToLower(l), h) {
					cs = append(cs, complaint{p, i + 1, sprint("%q is a registry; leave it to the settings of the machine", h)})
					break
				}
			}
		}
	}
	return cs
}

func TestPrivate(t *testing.T) { checkRepo(t, checkPrivate) }

func TestPrivateComplains(t *testing.T) {
	const slash = "/"
	wantComplaints(t, checkPrivate, treeOf(
		"a.md", "see "+slash+"work/x\n"+slash+"home/me\nthe net"+"work/x, ~"+slash+"root/y and https://example.com"+slash+"home/z are fine\n",
		"b.txt", "file://"+slash+"root/x\n",
		"c.yaml", "image: "+registryHosts[8]+"/x\n",
		"d.bin", "\x00 "+slash+"work/x\n",
	),
		`a.md:1: "`+slash+`work/" is a path`,
		`a.md:2: "`+slash+`home/" is a path`,
		`b.txt:1: "`+slash+`root/" is a path`,
		`c.yaml:1: "`+registryHosts[8]+`" is a registry`,
	)
	if got := hostsIn("https://mirror.example.com/go,direct\nsum.example.com+abc"); len(got) != 1 || got[0] != "mirror.example.com" {
		t.Errorf("hostsIn: got %q", got)
	}
}
