// hops.go - two goroutines hand a turn back and forth through channels that hold nothing.
//
//	hops TRIALS HOPS
//
// On one processor of Go's scheduler (GOMAXPROCS=1) the hand-over happens inside one kernel thread; with two it may
// cross to another one.  Kernel switches are those of the whole process, its runtime's threads among them.
//
//	hop by=go_1 trial=0 hops=... elapsed_ns=... cpu_ns=... voluntary=... involuntary=...
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

func tally() (cpu, voluntary, involuntary int64) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		os.Exit(1)
	}
	return usage.Utime.Nano() + usage.Stime.Nano(), usage.Nvcsw, usage.Nivcsw
}

func main() {
	trials, _ := strconv.Atoi(os.Args[1])
	hops, _ := strconv.Atoi(os.Args[2])
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
	there, back := make(chan struct{}), make(chan struct{})
	go func() {
		for {
			<-there
			back <- struct{}{}
		}
	}()
	play := func(pairs int) {
		for i := 0; i < pairs; i++ {
			there <- struct{}{}
			<-back
		}
	}
	for trial := 0; trial < trials; trial++ {
		for processors := 1; processors <= 2; processors++ {
			runtime.GOMAXPROCS(processors)
			play(hops/20 + 1)
			cpu, voluntary, involuntary := tally()
			start := time.Now()
			play(hops / 2)
			elapsed := time.Since(start)
			c, v, i := tally()
			fmt.Printf("hop by=go_%d trial=%d hops=%d elapsed_ns=%d cpu_ns=%d voluntary=%d involuntary=%d\n",
				processors, trial, hops/2*2, elapsed.Nanoseconds(), c-cpu, v-voluntary, i-involuntary)
		}
	}
	fmt.Println("done")
}
