package organism

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"slices"

	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/agentruntime/thinker"
)

// View describes a profile to people: which handler gets which tag.
type View struct {
	Profile string `json:"profile"`
	Journal string `json:"journal"`
	// Organism is the hash of the configuration.
	Organism string      `json:"organism,omitempty"`
	Routes   []ViewRoute `json:"routes"`
}

// ViewRoute is one row of the routing table, with the handler's own rights.
type ViewRoute struct {
	Tag     string   `json:"tag"`
	Handler string   `json:"handler"`
	Work    string   `json:"work"` // AGENT/TOOL, or the thinking model
	Peers   []string `json:"peers,omitempty"`
}

// Views returns the profiles as they will be built. Answers, which return to the
// caller, are left out.
func (o *Organism) Views() []View {
	views := []View{}
	for _, p := range o.Profiles {
		v := View{Profile: p.Name, Journal: string(p.Retention.Policy), Organism: o.Hash.String(), Routes: []ViewRoute{}}
		if p.Retention.Policy == pipeline.RetainDays {
			v.Journal = fmt.Sprintf("%s(%d)", p.Retention.Policy, p.Retention.Days)
		}

		thinks, seen := false, map[string]bool{}
		for _, name := range p.Listeners {
			l, _ := o.Listener(name)
			thinks = thinks || l.Agent != nil
			for _, r := range l.routes(o.messagePeers(l)) {
				r.Peers = slices.DeleteFunc(slices.Clone(r.Peers), func(peer string) bool { return peer != modelName && !slices.Contains(p.Listeners, peer) })
				if !seen[r.Tag] { // the first handler with a tag gets it
					v.Routes = append(v.Routes, r)
				}
				seen[r.Tag] = true
			}
		}

		if thinks {
			v.Routes = append(v.Routes, ViewRoute{Tag: thinker.TagRequest, Handler: modelName, Work: "the language model"})
		}
		views = append(views, v)
	}

	return views
}

func (l Listener) routes(peers []Listener) []ViewRoute {
	if l.Messages != nil {
		var all []ViewRoute
		for _, t := range l.Messages.Takes {
			all = append(all, ViewRoute{Tag: t.Tag(), Handler: l.Name, Work: l.Handler, Peers: l.Peers})
		}
		return all
	}

	if l.Agent == nil {
		return []ViewRoute{{Tag: l.PayloadClass, Handler: l.Name, Work: l.Handler, Peers: l.Peers}}
	}
	all := []ViewRoute{{Tag: l.PayloadClass, Handler: l.Name, Work: "thinks with " + l.Agent.Model, Peers: append([]string{modelName}, l.Peers...)}}
	for _, peer := range peers {
		name := l.Name + askSuffix
		all = append(all, ViewRoute{Tag: name + "." + peer.Name, Handler: name, Work: "asks " + peer.Name + " for " + l.Name, Peers: []string{peer.Name}})
	}

	if l.Callable != nil {
		all = append(all, ViewRoute{Tag: l.Name + callSuffix, Handler: l.Name + callSuffix, Work: "asks " + l.Name + " in a thread of its own"})
	}
	return all
}

// Sizes of the picture, in pixels.
const (
	rowHeight  = 34
	boxHeight  = 24
	tagX       = 20
	handlerX   = 320
	boxWidth   = 240
	pictureEnd = 760
)

// Draw returns an SVG of the tables: tags on the left, handlers on the right, and
// beside the handlers a curve from each to those that it may send to.
func Draw(views []View) []byte {
	var b bytes.Buffer
	y := 20
	for _, v := range views {
		y += 30
		fmt.Fprintf(&b, `<text x="%d" y="%d" font-weight="bold">%s</text>`+"\n", tagX, y, escape("profile "+v.Profile+", journal "+v.Journal))

		y += 14
		at := map[string]int{}
		for _, r := range v.Routes {
			if _, ok := at[r.Handler]; !ok {
				at[r.Handler] = y + boxHeight/2
			}
			box(&b, tagX, y, r.Tag, "#eef")
			box(&b, handlerX, y, r.Handler, "#efe")
			fmt.Fprintf(&b, `<path d="M%d %d H%d" stroke="#444" marker-end="url(#a)"/>`+"\n", tagX+boxWidth, y+boxHeight/2, handlerX-4)
			fmt.Fprintf(&b, `<text x="%d" y="%d" font-size="11" fill="#666">%s</text>`+"\n", handlerX+boxWidth+70, y+16, escape(r.Work))
			y += rowHeight
		}

		for _, r := range v.Routes {
			for _, peer := range r.Peers {
				if to, ok := at[peer]; ok {
					x := handlerX + boxWidth
					fmt.Fprintf(&b, `<path d="M%d %d C%d %d %d %d %d %d" fill="none" stroke="#a60" marker-end="url(#a)"/>`+"\n",
						x, at[r.Handler]-4, x+60, at[r.Handler], x+60, to, x+4, to+4)
				}
			}
		}
	}

	head := fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="13" fill="#222">
<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z"/></marker></defs>
<rect width="100%%" height="100%%" fill="#fff"/>
`, pictureEnd+140, y+20)
	return append(append([]byte(head), b.Bytes()...), "</svg>\n"...)
}

func box(b *bytes.Buffer, x, y int, text, fill string) {
	fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d" rx="4" fill="%s" stroke="#888"/><text x="%d" y="%d">%s</text>`+"\n",
		x, y, boxWidth, boxHeight, fill, x+8, y+17, escape(text))
}

func escape(s string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s)) // writing to a buffer never fails
	return b.String()
}
