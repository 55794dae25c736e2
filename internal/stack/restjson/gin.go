//go:build gin

package restjson

import (
	"net/http"
	"sync"

	"github.com/gin-gonic/gin"

	"wirelab.dev/internal/tuning"
)

// quiet keeps Gin from printing its routes, once for the whole process: it has
// no other switch.
var quiet = sync.OnceFunc(func() { gin.SetMode(gin.ReleaseMode) })

// bareGin is Gin without routes.
func bareGin() *gin.Engine {
	quiet()
	engine := gin.New()
	engine.HandleMethodNotAllowed = true
	engine.UseRawPath = true
	return engine
}

// ginSettings lists what is not Gin's default.
func ginSettings() []tuning.Setting {
	used, library := bareGin(), gin.New()
	all := []tuning.Setting{
		{Side: tuning.Server, Name: "gin.SetMode", Value: gin.Mode(), Default: gin.DebugMode, Why: "the debug mode prints every route"},
		{Side: tuning.Server, Name: "gin.Logger, gin.Recovery", Value: "none", Default: "both, in gin.Default", Why: "what is measured is the wire, and not a terminal"},
	}
	return append(all, tuning.Differences(tuning.Server, "gin.Engine", used, library, tuning.Reasons{
		"RouterGroup":            tuning.Unlisted,
		"HandleMethodNotAllowed": {Why: "a wrong verb is told from a wrong path"},
		"UseRawPath":             {Why: "a slash in an id is the id's"},
	})...)
}

// newGin is Gin's router. It is not in every build: see decision 0024.
func newGin(routes index) (http.Handler, error) {
	engine := bareGin()
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
