package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	agentsandbox "github.com/lightwork-market/lightwork/agentruntime/agents/sandbox"
	agenttext "github.com/lightwork-market/lightwork/agentruntime/agents/text"
	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/agentruntime/model"
	"github.com/lightwork-market/lightwork/agentruntime/sandbox"
	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/agentruntime/toolschema"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/node/builtin"
	"github.com/lightwork-market/lightwork/internal/node/wallets"
	"github.com/lightwork-market/lightwork/internal/observe"
	"github.com/lightwork-market/lightwork/schemas"
)

const (
	// stockLook is how often it is looked whether what is on offer can be done.
	stockLook = time.Second
	// modelLook is how often the model's endpoint is asked whether it is there.
	modelLook = 15 * time.Second
	// blobsLook is how often blob servers that refuse results are asked again.
	blobsLook = 30 * time.Second
	// modelAgain is how soon an endpoint that failed is asked once more before it
	// is believed.
	modelAgain = 2 * time.Second
)

// stock knows which job types on offer can be done now: their agent runs and has
// registered a tool that fits, and the model's endpoint answers where a model does
// them. It is safe for concurrent use.
type stock struct {
	agents *host.Host
	sup    *supervisor.Supervisor
	routes map[string]route // by schema id
	models map[string]bool  // schema ids whose jobs a model does
	ping   func(context.Context) error
	tell   *SaleLog
	// toolchain reports that the host's is another one than was announced; nil where
	// no offer runs on it.
	toolchain func() (bool, error)
	// loose: jobs cannot be confined here, so the sandbox's agent was left out.
	loose bool
	// takesResults is an error if no blob server does.
	takesResults func(context.Context) error
	// drained reports a job type whose operator takes no new jobs; nil: none is.
	drained func(schemaID string) bool

	mu     sync.Mutex
	unpaid map[string]string // why the wallet can be paid for none of them, by schema id
	other  bool              // toolchain said so
	down   string            // why the model's endpoint cannot be used, "" while it can
	shut   string            // why no blob server takes results, "" if one may
	fits   map[string]string // why a tool does not fit, by job type and schemas
	found  map[string]string // what serve has told of, by schema id
}

func newStock(c *Node, agents *host.Host, sup *supervisor.Supervisor, routes map[string]route, takesResults func(context.Context) error, tell *SaleLog) (*stock, error) {
	s := &stock{takesResults: takesResults, agents: agents, sup: sup, routes: routes, models: map[string]bool{}, tell: tell, loose: c.Level == "", fits: map[string]string{}, found: map[string]string{}, drained: c.Admission().IsDrained}
	for id, to := range routes {
		if needsModel(c.Config, to) {
			s.models[id] = true
		}
		if to.agent == agentsandbox.ID {
			s.toolchain = sandbox.HostChanged
		}
	}

	if len(s.models) == 0 {
		return s, nil
	}
	client, err := model.New(builtin.Endpoint(c.Config).Client)
	if err != nil {
		return nil, err
	}
	s.ping = func(ctx context.Context) error { _, err := client.Ping(ctx); return err }
	return s, nil
}

// needsModel reports a job type that the model's endpoint does.
func needsModel(c *config.Config, to route) bool {
	if builtin.Endpoint(c) == nil || to.agent != agenttext.ID {
		return false
	}
	if to.tool == agenttext.ToolEmbedding {
		return c.Model.Embed != ""
	}
	return c.Model.Name != ""
}

// why says why jobs of a type cannot be done now, "" if they can.
func (s *stock) why(schemaID string) string {
	if s.isDrained(schemaID) {
		return s.tell.words("drained: no new jobs of this type are taken; " + advice.With(advice.ResumeJob, schemaID) + " takes them again")
	}
	if why := s.unpayable(schemaID); why != "" {
		return why
	}
	if why, _ := s.tool(schemaID); why != "" {
		return why
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	if s.shut != "" {
		return s.shut
	}
	if s.models[schemaID] && s.down != "" {
		return "the model's endpoint: " + s.down
	}
	return ""
}

// unpayable says why the wallet cannot be paid for jobs of a type, "" if it can.
func (s *stock) unpayable(schemaID string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unpaid[schemaID]
}

// setUnpaid says of which job types the wallet can be paid for none, and why.
func (s *stock) setUnpaid(why map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unpaid = why
}

func (s *stock) isDrained(schemaID string) bool { return s.drained != nil && s.drained(schemaID) }

// withdrawn is what the last look found.
func (s *stock) withdrawn(schemaID string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.found[schemaID]
}

// takes says why the tool of a job type would refuse an input unread.
func (s *stock) takes(schemaID string, input []byte) error {
	to := s.routes[schemaID]
	err := s.sup.Check(supervisor.Call{AgentID: to.agent, Tool: to.tool, Input: input, CausationID: "admission"})
	if refused := (*supervisor.Error)(nil); errors.As(err, &refused) && refused.Code == wire.CodeInvalidInput {
		return errors.New(refused.Message)
	}
	return nil // a tool that is away is why's affair
}

// tool says why the tool of a job type cannot do its jobs. unfit: it never will,
// as it is registered.
func (s *stock) tool(schemaID string) (why string, unfit bool) {
	to := s.routes[schemaID]
	if s.loose && to.agent == agentsandbox.ID {
		return s.tell.words("jobs cannot be confined here: " + advice.Check + " says what is missing, and the node finds it at its next start"), false
	}
	if to.agent == agentsandbox.ID && s.onOtherTools() {
		return "the host's toolchain has changed since the node started, so jobs would not run on the one that is announced: start the node again", false
	}

	tools, err := s.sup.Tools(to.agent)
	if err != nil {
		return "agent " + to.agent + " does not run" + s.reason(to.agent), false
	}

	for _, st := range s.sup.Status() {
		if st.ID == to.agent && st.State != supervisor.StateRunning {
			return strings.TrimSuffix(fmt.Sprintf("agent %s is %s: %s", to.agent, st.State, st.Reason), ": "), false
		}
	}

	for _, t := range tools {
		if t.Name == to.tool && t.Routable {
			why := s.misfit(to.schema, to.agent+"/"+to.tool, t)
			return why, why != ""
		}
	}

	return to.agent + " has not registered " + to.tool, false
}

func (s *stock) onOtherTools() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.other
}

// lookAtTools asks whether the toolchain is still the one that is announced.
func (s *stock) lookAtTools() {
	if s.toolchain == nil {
		return
	}
	other, err := s.toolchain()
	if err != nil {
		s.tell.say("the host's toolchain cannot be described: %v", err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.other = other
}

// reason is why an agent does not run, as agents list says it.
func (s *stock) reason(agent string) string {
	for _, st := range s.agents.List() {
		if st.ID == agent && st.Reason != "" {
			return ": " + NotTwice(agent, st.Reason)
		}
	}
	return ""
}

// misfit says why a tool's schemas keep it from doing jobs of a type.
func (s *stock) misfit(job *schemas.Schema, id string, t supervisor.ToolInfo) string {
	s.mu.Lock()
	defer s.mu.Unlock()

	key := string(job.ID) + "\n" + string(t.InputSchema) + "\n" + string(t.OutputSchema)
	if why, known := s.fits[key]; known {
		return why
	}
	why := toolMisfit(job, id, t.InputSchema, t.OutputSchema)
	if len(s.fits) > 2*len(s.routes) { // an agent may register another schema each second
		clear(s.fits)
	}
	s.fits[key] = why
	return why
}

// toolMisfit says why a tool with these schemas cannot do jobs of a type, "" if
// nothing shows it.
func toolMisfit(job *schemas.Schema, id string, input, output json.RawMessage) string {
	if err := toolschema.Takes(input, job.InputSchema()); err != nil {
		return fmt.Sprintf("input_schema of %s does not take requests of %s: %v", id, job.ID, err)
	}
	if len(output) == 0 || string(output) == "null" {
		return ""
	}
	if err := toolschema.Gives(output, job.OutputSchema(), "/provenance/provider_pubkey"); err != nil {
		return fmt.Sprintf("output_schema of %s does not give results of %s: %v", id, job.ID, err)
	}
	return ""
}

// offers is what is on offer, for those who watch.
func (s *stock) offers() []observe.Offer {
	all := []observe.Offer{}
	for _, id := range slices.Sorted(maps.Keys(s.routes)) {
		all = append(all, observe.Offer{Schema: id, Withdrawn: s.why(id)})
	}
	return all
}

// check looks for the first time, before anything is announced. It is an error if
// a tool does not fit, or nothing at all can be done, unless jobs are open: these
// go on, and what cannot be done is withdrawn.
func (s *stock) check(ctx context.Context, open int) error {
	s.askModel(ctx)
	s.askBlobs(ctx)

	var bad error
	withdrawn := 0
	for _, id := range slices.Sorted(maps.Keys(s.routes)) {
		to := s.routes[id]
		if why, unfit := s.tool(id); unfit && bad == nil {
			bad = advice.Usage(advice.With(advice.ShowInput, id)+" prints what the tool must take, and "+advice.ShowOutput+" what it must give; or name another tool under provider.offers",
				"%s is on offer, and %s cannot do it: %s", id, to.agent+"/"+to.tool, why)
		}
		if !s.isDrained(id) && s.why(id) != "" { // one that is drained can be done, and may be sold again at any time
			withdrawn++
		}
	}

	if bad == nil && withdrawn == len(s.routes) {
		id := slices.Sorted(maps.Keys(s.routes))[0]
		bad = advice.Usage(s.hint(id), "%s is on offer, and %s cannot be called: %s", id, s.routes[id].agent+"/"+s.routes[id].tool, s.why(id))
		if why := s.unpayable(id); why != "" {
			bad = advice.Usage(wallets.UnpaidHint, "%s is on offer, and cannot be sold: %s", id, why)
		} else if s.shut != "" {
			bad = advice.Usage(advice.Check+" says whom the server's operator has to name; or name another server under blobs", "nothing can be delivered: %s", s.shut)
		}
	}

	if bad != nil && open == 0 {
		return bad
	}
	s.look()
	return nil
}

func (s *stock) hint(schemaID string) string {
	if why, _ := s.tool(schemaID); why == "" {
		return advice.Check + " asks the model's endpoint; model in the configuration names it"
	}
	return advice.ListAgents + " says why; " + advice.ApproveAgent + " allows one, agents[].tools must name the tool, and " + advice.Check + " says what the sandbox needs"
}

// look tells of what was withdrawn and what came back since the last look.
func (s *stock) look() {
	for _, o := range s.offers() {
		s.mu.Lock()
		before := s.found[o.Schema]
		s.found[o.Schema] = o.Withdrawn
		s.mu.Unlock()
		switch {
		case o.Withdrawn == before:
		case o.Withdrawn == "":
			s.tell.say("%s is on offer again", o.Schema)
		default:
			s.tell.say("%s is withdrawn until that is mended: %s", o.Schema, o.Withdrawn)
		}
	}
}

func (s *stock) isShut() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shut != ""
}

// askModel asks the endpoint whether it is there, twice before it is believed gone.
func (s *stock) askModel(ctx context.Context) {
	if s.ping == nil {
		return
	}
	err := s.ping(ctx)
	if err != nil && ctx.Err() == nil {
		select {
		case <-time.After(modelAgain):
			err = s.ping(ctx)
		case <-ctx.Done():
		}
	}

	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()

	s.down = ""
	if err != nil {
		s.down = err.Error()
	}
}

// askBlobs asks the blob servers whether one takes results: what cannot be delivered is not
// to be sold.
func (s *stock) askBlobs(ctx context.Context) {
	err := s.takesResults(ctx)
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()

	s.shut = ""
	if err != nil {
		s.shut = "no blob server takes our results: " + strings.ReplaceAll(err.Error(), "\n", "; ")
	}
}

// serve looks again and again until ctx ends.
func (s *stock) serve(ctx context.Context) error {
	tick := time.NewTicker(stockLook)
	defer tick.Stop()

	var wg sync.WaitGroup
	defer wg.Wait()

	wg.Go(func() {
		slow, blobs := time.NewTicker(modelLook), time.NewTicker(blobsLook)
		defer slow.Stop()
		defer blobs.Stop()

		for {
			select {
			case <-slow.C:
				s.askModel(ctx)
				s.lookAtTools()
			case <-blobs.C:
				if s.isShut() { // one that takes results once is asked by each of them
					s.askBlobs(ctx)
				}
			case <-ctx.Done():
				return
			}
		}
	})

	for {
		select {
		case <-tick.C:
			s.look()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
