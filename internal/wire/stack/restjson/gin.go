//go:build gin

package restjson

import (
	"net/http"
	"sync"

	"github.com/gin-gonic/gin"

	"wirelab.dev/internal/base/tuning"
)

// setReleaseMode stops Gin from printing its routes. The mode applies to the whole process.
var setReleaseMode = sync.OnceFunc(func() { gin.SetMode(gin.ReleaseMode) })

func newBareGin() *gin.Engine {
	setReleaseMode()
	engine := gin.New()
	engine.HandleMethodNotAllowed = true
	engine.UseRawPath = true
	return engine
}

func ginSettings() []tuning.Setting {
	used, library := newBareGin(), gin.New()
	all := []tuning.Setting{
		{Side: tuning.Server, Name: "gin.SetMode", Value: gin.Mode(), Default: gin.DebugMode, Why: "the debug mode prints every route"},
		{Side: tuning.Server, Name: "gin.Logger, gin.Recovery", Value: "none", Default: "both, in gin.Default", Why: "the wire is measured, not a terminal"},
	}
	return append(all, tuning.Differences(tuning.Server, "gin.Engine", used, library, tuning.Reasons{
		"RouterGroup":            tuning.NotASetting,
		"HandleMethodNotAllowed": {Why: "a wrong verb is answered with 405, not 404"},
		"UseRawPath":             {Why: "an id may have an escaped slash"},
	})...)
}

// newGin makes a handler on Gin. Only builds with the tag gin have it: see decision 0024.
func newGin(routes index) (http.Handler, error) {
	engine := newBareGin()
	for _, r := range routes {
		engine.Handle(r.route.Verb, r.route.Template(":", ""), func(g *gin.Context) {
			for _, p := range g.Params {
				g.Request.SetPathValue(p.Key, p.Value)
			}
			r.ServeHTTP(g.Writer, g.Request)
		})
	}
	engine.NoRoute(func(g *gin.Context) { routes.notFound(g.Writer, g.Request) })
	engine.NoMethod(func(g *gin.Context) { notAllowed(g.Writer, g.Request, g.Writer.Header().Get("Allow")) })
	return engine, nil
}
