// SPDX-License-Identifier: Apache-2.0

package server

import (
	"embed"
	"mime"
	"net/http"
	"path"
)

// console has the files of the page as they are written: there is no build step.
//
//go:embed console
var console embed.FS

// staticRoutes are the files of the console. They show nothing of the store, so they need
// no identity: the page asks for a token itself.
func staticRoutes() []*route {
	files, err := console.ReadDir("console")
	if err != nil {
		panic(err) // it is embedded
	}
	routes := []*route{static("/", "console/index.html")}
	for _, f := range files {
		routes = append(routes, static("/console/"+f.Name(), "console/"+f.Name()))
	}
	return routes
}

func static(at, file string) *route {
	kind := mime.TypeByExtension(path.Ext(file))
	return &route{method: "GET", path: at, public: true, serve: func(_ *Server, w http.ResponseWriter, _ *call) error {
		text, err := console.ReadFile(file)
		if err != nil {
			return err
		}
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(text)
		return nil
	}}
}
