// runtimes.go - a service with work in the background, on as many threads as Go counts CPUs.
//
//	runtimes CPU_STAT TURNS DURATION_MS GAP_US REQUEST_US
//
// CPU_STAT is the cpu.stat of its group, which has a quota: it starts with one of the quota's periods.
// One goroutine answers requests, each a fixed amount of work, due every GAP_US whether or not the last one is done.
// Beside it one goroutine for each CPU that Go counts works in the background until the end.  GOMAXPROCS is how many
// of them all may run at once: where nobody sets it, Go asks the machine and, from 1.25 on, the control group.
// TURNS of the loop are a microsecond's work; with 0 the program only measures how many are.
//
//	seen cpus=... version=...
//	work turns=...                          with TURNS 0, and then nothing else
//	stat nr_periods=... nr_throttled=...    the file CPU_STAT, before the first request and after the last
//	request due_ns=... latency_ns=...       times count from the start; latency from when the request was due
//	background units=... elapsed_ns=...     units of 100 microseconds' work that were done
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

const unitUS = 100 // of work in the background

var sink [256]uint64 // the loop's result has to go somewhere, or the compiler leaves the loop out

func work(turns int, who int) {
	x := uint64(who + 1)
	for i := 0; i < turns; i++ { // Marsaglia's xorshift: each turn needs the one before, and no compiler shortens it
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	sink[who%256] = x
}

// calibrate says how many turns a microsecond has: the quickest of many tries is one that nobody disturbed.
func calibrate() int {
	const turns = 20000
	best := time.Hour
	for i := 0; i < 2000; i++ {
		start := time.Now()
		work(turns, 0)
		best = min(best, time.Since(start))
	}
	return int(turns * 1000 / best.Nanoseconds())
}

func stat(path string) {
	text, err := os.ReadFile(path)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("stat", strings.NewReplacer(" ", "=", "\n", " ").Replace(strings.TrimSpace(string(text))))
}

// waitForAPeriod returns when a period of the quota begins, so that a whole number of them has as many quotas.
func waitForAPeriod(path string) {
	periods := func() string {
		text, _ := os.ReadFile(path)
		_, after, _ := strings.Cut(string(text), "nr_periods")
		count, _, _ := strings.Cut(after, "\n")
		return count
	}
	for before := periods(); periods() == before; {
	}
}

func main() {
	var number [4]int
	for i := range number {
		number[i], _ = strconv.Atoi(os.Args[i+2])
	}
	turns, duration := number[0], time.Duration(number[1])*time.Millisecond
	gap, request := time.Duration(number[2])*time.Microsecond, number[3]
	in := bufio.NewReader(os.Stdin)
	if _, err := in.ReadString('\n'); err != nil {
		os.Exit(1)
	}
	go func() { // whoever started us has gone: so do we
		for {
			if _, err := in.ReadByte(); err != nil {
				os.Exit(1)
			}
		}
	}()
	cpus := runtime.GOMAXPROCS(0)
	fmt.Printf("seen cpus=%d version=%s\n", cpus, runtime.Version())
	if turns == 0 {
		fmt.Printf("work turns=%d\ndone\n", calibrate())
		return
	}
	latencies := make([]time.Duration, 0, duration/gap)
	units := make([]int, cpus)
	var all sync.WaitGroup
	waitForAPeriod(os.Args[1])
	stat(os.Args[1])
	start := time.Now()
	for worker := range cpus {
		all.Add(1)
		go func() {
			defer all.Done()
			for time.Since(start) < duration {
				work(unitUS*turns, worker+1)
				units[worker]++
			}
		}()
	}
	all.Add(1)
	go func() {
		defer all.Done()
		for due := time.Duration(0); due < duration; due += gap {
			time.Sleep(due - time.Since(start)) // none, where it is late
			work(request*turns, 0)
			latencies = append(latencies, time.Since(start)-due)
		}
	}()
	all.Wait()
	elapsed := time.Since(start)
	stat(os.Args[1])
	sum := 0
	for _, done := range units {
		sum += done
	}
	for i, latency := range latencies {
		fmt.Printf("request due_ns=%d latency_ns=%d\n", (time.Duration(i) * gap).Nanoseconds(), latency.Nanoseconds())
	}
	fmt.Printf("background units=%d elapsed_ns=%d\ndone\n", sum, elapsed.Nanoseconds())
}
