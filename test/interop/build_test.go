// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
)

//go:embed redisson spring curator jetcd
var javaSource embed.FS

// versions of Redisson: the oldest that is supported, those at which something on the wire
// changed, and the newest.
var versions = []string{"3.17.7", "3.27.2", "3.45.1", "3.52.0", "4.7.0"}

// newest is the version of a short run.
const newest = "4.7.0"

var built sync.Map // of libraries and versions, to functions

// command returns the command of a Java peer with a library, redisson, spring, curator or jetcd. The peer is built
// when it is wanted for the first time, into the user's cache.
func command(library, version string) ([]string, error) {
	build, _ := built.LoadOrStore(library+" "+version, sync.OnceValues(func() ([]string, error) { return buildPeer(library, version) }))
	return build.(func() ([]string, error))()
}

func buildPeer(library, version string) ([]string, error) {
	for _, tool := range []string{"mvn", "javac", "java"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, fmt.Errorf("%s is not installed; on Debian: apt-get install maven default-jdk-headless", tool)
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	for _, file := range []string{library + "/pom.xml", library + "/peer/Peer.java"} {
		text, err := javaSource.ReadFile(file)
		if err != nil {
			return nil, err
		}
		sum.Write(text)
	}
	dir := filepath.Join(cache, "fencelock-interop", hex.EncodeToString(sum.Sum(nil)[:8]), version)
	command := []string{"java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp",
		filepath.Join(dir, "classes") + string(os.PathListSeparator) + filepath.Join(dir, "lib") + "/*", "peer.Peer"}
	if _, err := os.Stat(dir); err == nil {
		return command, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, err
	}
	building, err := os.MkdirTemp(filepath.Dir(dir), "building") // another process may build the same
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(building)
	if err := os.CopyFS(building, javaSource); err != nil {
		return nil, err
	}
	source, libraries, classes := filepath.Join(building, library), filepath.Join(building, "lib"), filepath.Join(building, "classes")
	classPath := libraries + "/*"
	for _, step := range [][]string{
		{"mvn", "-q", "-B", "-f", filepath.Join(source, "pom.xml"), "dependency:copy-dependencies", "-D" + library + ".version=" + version, "-DoutputDirectory=" + libraries},
		{"javac", "-nowarn", "-cp", classPath, "-d", classes, filepath.Join(source, "peer", "Peer.java")},
	} {
		run := exec.Command(step[0], step[1:]...)
		var out bytes.Buffer
		run.Stdout, run.Stderr = &out, &out
		if err := run.Run(); err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", step[0], err, out.Bytes())
		}
	}
	if err := os.Rename(building, dir); err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, syscall.ENOTEMPTY) {
		return nil, err
	}
	return command, nil
}
