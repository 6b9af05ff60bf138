package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// door is a call in a wallet's package by which money can leave. mention is a name that
// the function must have too, where the call alone says less.
type door struct{ call, mention string }

// backend says of the calls by which a wallet's package reaches whoever moves the money
// which let some leave, and which do not.
type backend struct {
	doors []door
	// remote are the values whose methods are such calls, and harmless those of their
	// methods by which no money leaves. A method in neither fails the test.
	remote   []string
	harmless string
	// methods is the prefix or the type of the constants that name a remote method.
	methods string
}

const unused = " is a door that nobody goes by"

// backends are the packages below payments that have a payer. A new one needs a row.
var backends = map[string]backend{
	"lnd": {
		doors:  []door{{call: "w.router.SendPaymentV2"}},
		remote: []string{"w.router", "w.wallet", "w.ln", "w.invoices"},
		// What lnd signs and publishes is asked for by payments/onchain, which has doors.
		harmless: "AddHoldInvoice CancelInvoice SettleInvoice SubscribeSingleInvoice AddInvoice ChannelBalance GetInfo GetTransactions ListChannels ListInvoices " +
			"LookupHtlcResolution LookupInvoice NewAddress SubscribeInvoices WalletBalance TrackPaymentV2 EstimateFee FinalizePsbt FundPsbt GetTransaction ListLeases " +
			"PublishTransaction ReleaseOutput",
	},
	"onchain": {
		doors:    []door{{call: "w.cfg.Chain.SignSend"}, {call: "w.cfg.Chain.Publish"}},
		remote:   []string{"w.cfg.Chain"},
		harmless: "ChainBalance CheckPermissions FeeRate NewAddress Node Published Ready Received Release SignRequest Transaction",
	},
	"nwc": {
		doors:    []door{{call: "c.publish", mention: "PayInvoice"}},
		methods:  "Method",
		harmless: "MakeInvoice LookupInvoice ListTransactions GetBalance GetBudget GetInfo MakeHoldInvoice SettleHoldInvoice CancelHoldInvoice",
	},
	"cashu": {
		doors:    []door{{call: "e.mint.melt"}, {call: "e.cfg.Messages.Send"}, {call: "e.send"}, {call: "w.beginSplit"}, {call: "w.begin"}, {call: "w.beginExport"}},
		remote:   []string{"e.mint", "w.mint", "e.cfg.Messages", "w.cfg.Messages"},
		harmless: "ask issue keysets meltQuote meltState restore restoreSome states swap Receive",
	},
	"playnet": {
		doors:    []door{{call: "c.call", mention: "MethodSendPayment"}},
		methods:  "Method",
		harmless: "MethodOpenWallet MethodNode MethodBalance MethodCreateInvoice MethodLookupInvoice MethodSettleInvoice MethodCancelInvoice MethodWatchInvoices MethodLookupPayment MethodTrackPayment",
	},
}

// TestMoneyLeavesByAGateAlone reads the wallets' source: whatever lets money leave asks
// the owner's word directly before, and nothing else can let it leave.
func TestMoneyLeavesByAGateAlone(t *testing.T) {
	for _, name := range payersIn(t, "../../payments") {
		b, ok := backends[name]
		if !ok {
			t.Errorf("payments/%s pays, and no row of backends says by which calls", name)
			continue
		}
		files := parse(t, filepath.Join("../../payments", name))
		for _, problem := range b.check(files) {
			t.Errorf("payments/%s: %s", name, problem)
		}
	}
}

// TestTheGateTestSees: the test above finds a payment without the gate, a gate behind the
// payment, a remote call and a remote method that nobody has thought about.
func TestTheGateTestSees(t *testing.T) {
	b := backend{
		doors: []door{{call: "w.far.Send"}, {call: "w.tell", mention: "MethodPay"}}, remote: []string{"w.far"},
		harmless: "Look MethodLook", methods: "Method",
	}
	const ask = "if err := w.cfg.MaySpend.Ask(); err != nil { return }; "
	for body, want := range map[string]string{
		ask + "w.far.Send()":                  "",
		ask + "w.tell(MethodPay)":             "",
		"w.far.Look(); w.tell(MethodLook)":    "",
		"w.far.Send()":                        "pay calls w.far.Send without",
		"w.tell(MethodPay)":                   "pay calls w.tell without",
		"w.far.Send(); " + ask:                "pay calls w.far.Send without",
		"go func() { w.far.Send() }()":        "pay calls w.far.Send without",
		"w.far.Give()":                        "w.far.Give is in no row",
		"use(w.far.Give)":                     "w.far.Give is in no row",
		ask + "w.tell(MethodPay, MethodGive)": "MethodGive is in no row",
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nfunc (w *W) pay() { "+body+" }\nconst (\n\tMethodLook = \"look\"\n\tMethodPay = \"pay\"\n)\n"+
			map[bool]string{true: "const MethodGive = \"give\"\n"}[strings.Contains(body, "MethodGive")], 0)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(slices.DeleteFunc(b.check([]*ast.File{file}), func(problem string) bool { return strings.HasSuffix(problem, unused) }), "; ")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}

// payersIn are the packages below a folder with a type that has a method SendPayment.
func payersIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	found := map[string]bool{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !e.IsDir() || e.Name() == "conformance" {
			continue
		}
		for _, f := range parse(t, filepath.Join(dir, e.Name())) {
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil && fn.Name.Name == "SendPayment" {
					found[e.Name()] = true
				}
			}
		}
	}

	for name := range backends {
		if !found[name] {
			t.Errorf("backends has a row for payments/%s, which does not pay", name)
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func parse(t *testing.T, dir string) (files []*ast.File) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

// check lists what is wrong in the files of a backend.
func (b backend) check(files []*ast.File) (problems []string) {
	used := map[door]bool{}
	for _, f := range files {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Body != nil {
					problems = append(problems, b.checkFunc(d, used)...)
				}
			case *ast.GenDecl:
				problems = append(problems, b.checkMethods(d)...)
			}
		}
	}
	for _, d := range b.doors {
		if !used[d] {
			problems = append(problems, d.call+unused)
		}
	}
	return problems
}

// checkFunc wants a gate before each door, and no remote call in no row.
func (b backend) checkFunc(fn *ast.FuncDecl, used map[door]bool) (problems []string) {
	names, gate := map[string]bool{}, token.Pos(0)
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			names[n.Name] = true
		case *ast.CallExpr:
			if strings.HasSuffix(types.ExprString(n.Fun), "MaySpend.Ask") && gate == 0 {
				gate = n.Pos()
			}
		}
		return true
	})

	ast.Inspect(fn.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			for _, d := range b.doors {
				if types.ExprString(n.Fun) != d.call || d.mention != "" && !names[d.mention] {
					continue
				}
				used[d] = true
				if gate == 0 || gate > n.Pos() {
					problems = append(problems, fmt.Sprintf("%s calls %s without asking MaySpend before", fn.Name.Name, d.call))
				}
			}
		case *ast.SelectorExpr:
			call := types.ExprString(n)
			if !slices.Contains(b.remote, types.ExprString(n.X)) || b.isKnown(n.Sel.Name) {
				break
			}
			if !slices.ContainsFunc(b.doors, func(d door) bool { return d.call == call }) {
				problems = append(problems, call+" is in no row: can money leave by it?")
			}
		}
		return true
	})
	return problems
}

// checkMethods wants each constant that names a remote method in a row.
func (b backend) checkMethods(d *ast.GenDecl) (problems []string) {
	if d.Tok != token.CONST || b.methods == "" {
		return nil
	}
	for _, s := range d.Specs {
		v := s.(*ast.ValueSpec)
		typed := v.Type != nil && types.ExprString(v.Type) == b.methods
		for _, name := range v.Names {
			isMethod := typed || v.Type == nil && strings.HasPrefix(name.Name, b.methods)
			isDoor := slices.ContainsFunc(b.doors, func(d door) bool { return d.mention == name.Name })
			if isMethod && !isDoor && !b.isKnown(name.Name) {
				problems = append(problems, name.Name+" is in no row: can money leave by it?")
			}
		}
	}
	return problems
}

func (b backend) isKnown(name string) bool {
	return slices.Contains(strings.Fields(b.harmless), name)
}
