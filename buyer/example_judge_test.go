package buyer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/buyer"
)

// A text is written by three providers, and a judge chooses one: it gets its price,
// the others what they ask for the attempt. The judge would ask a language model;
// what it is shown are the task and the answers, in an order of chance, without
// their makers.
func ExampleClient_PlacePanel_judge() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	market := newVillage(ctx, 3)
	defer market.close()

	config := market.config()
	config.MaxEngagementMsats = 1_000
	config.Judge = func(_ context.Context, question string) (string, error) {
		var asked struct {
			Candidates []struct {
				Number int
				Answer struct{ Text string }
			}
		}
		document := question[strings.LastIndex(question, "\n{\"task\""):]
		if err := json.Unmarshal([]byte(document), &asked); err != nil {
			return "", err
		}
		for _, c := range asked.Candidates {
			if strings.Contains(c.Answer.Text, "seller-2") {
				return fmt.Sprintf(`{"choice": %d, "why": "it is the best"}`, c.Number), nil
			}
		}
		return `{"choice": 0, "why": "none is good"}`, nil
	}
	client, err := buyer.New(config)
	if err != nil {
		log.Fatal(err)
	}
	list, err := client.Discover(ctx, "oa.text_generation.v1", "")
	if err != nil {
		log.Fatal(err)
	}
	panel, err := client.PlacePanel(ctx, buyer.PanelOrder{
		SchemaID: "oa.text_generation.v1", Input: []byte(`{"prompt":"Say something."}`),
		Seats: list, Rule: buyer.RuleJudge,
		MaxMsats: 30_000, // of all three together: one price, three fees, and routing
	})
	if err != nil {
		log.Fatal(err)
	}
	panel, err = client.FollowPanel(ctx, panel.ID, nil)
	switch {
	case errors.Is(err, buyer.ErrNoConsensus):
		log.Fatal("no result is paid: ", panel.Decision.Reason)
	case err != nil:
		log.Fatal("still open, follow it again later: ", err)
	}
	result, err := client.PanelResult(ctx, panel)
	if err != nil {
		log.Fatal(err)
	}
	var text struct{ Text string }
	if err := json.Unmarshal(result.Output, &text); err != nil {
		log.Fatal(err)
	}
	fmt.Println(panel.Tier()+":", text.Text)
	fmt.Println("paid", result.Payment.AmountMsats, "msats for it, and", result.Engagement.Payment.AmountMsats, "for the attempt")
	// Output:
	// judge: An answer by seller-2
	// paid 21000 msats for it, and 1000 for the attempt
}
