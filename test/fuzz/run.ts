import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import { startWorld } from '../support/world.ts'
import { describeBeside } from './beside.ts'
import { AnswerFuzzer } from './fuzz-answers.ts'
import { ConnectionFuzzer } from './fuzz-connections.ts'
import { RecordFuzzer } from './fuzz-records.ts'
import { fuzzRequests } from './fuzz-requests.ts'

const HELP = `npm run fuzz -- [--seconds N] [--runs N] [--seed N] [--kind requests|answers|records|connections]

Mutated requests, mutated answers of the upstream, mutated records in Redis and at the key service, and connections of all
kinds to gateway and console, in turn, for so many seconds (60) or so many runs of each. The seed is printed; with it, and --runs 1 for the seed of a finding, a run is
repeated. Keep the bytes of a finding as a file in test/fuzz/kept.
`

interface Part {
  readonly kind: string
  /** @returns findings, each with everything needed to reproduce it */
  run(runs: number, seed: number): Promise<readonly unknown[]>
  stop(): Promise<void>
}

const PARTS: Record<string, () => Promise<Part>> = {
  requests: async () => {
    const world = await startWorld({
      POSTERN_GATEWAY_HEADERS_TIMEOUT_MS: '200',
      POSTERN_GATEWAY_KEEP_ALIVE_TIMEOUT_MS: '100',
      POSTERN_LOG_LEVEL: 'error',
    })
    const { secret } = await world.issue()
    const { process: gateway } = world.gateway
    return {
      kind: 'requests',
      run: async (runs, seed) => {
        const { breaches } = await fuzzRequests(world, secret, runs, seed)
        const loggedErrors = gateway.log.filter(line => Number(line['level']) >= 50)
        return [...breaches, ...loggedErrors, ...(gateway.child.exitCode === null ? [] : ['It ended'])]
      },
      stop: () => world.stop(),
    }
  },
  answers: async () => {
    const fuzzer = await AnswerFuzzer.start()
    return {
      kind: 'answers',
      run: async (runs, seed) => [...(await fuzzer.run(runs, seed)).breaches, ...fuzzer.faults()],
      stop: () => fuzzer.stop(),
    }
  },
  records: async () => {
    const fuzzer = await RecordFuzzer.start()
    return {
      kind: 'records',
      run: async (runs, seed) => [...(await fuzzer.run(runs, seed)).breaches, ...fuzzer.faults()],
      stop: () => fuzzer.stop(),
    }
  },
  connections: async () => {
    const fuzzer = await ConnectionFuzzer.start()
    return {
      kind: 'connections',
      run: async (runs, seed) => {
        const report = await fuzzer.run(runs, seed)
        process.stdout.write(`${describeBeside(report.beside)}\n`)
        return [...report.breaches, ...fuzzer.faults()]
      },
      stop: () => fuzzer.stop(),
    }
  },
}

const BATCH = 1000

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    runs: { type: 'string' },
    seed: { type: 'string', default: String(randomInt(2 ** 31)) },
    kind: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
})
if (values.help) {
  process.stdout.write(HELP)
  process.exit(0)
}
const kinds = values.kind === undefined ? Object.keys(PARTS) : [values.kind]
const wanted = values.runs === undefined ? Number.POSITIVE_INFINITY : Number(values.runs)
const endMs =
  values.runs === undefined ? performance.now() + Number(values.seconds) * 1000 : Number.POSITIVE_INFINITY
process.stdout.write(`seed ${values.seed}\n`)

const parts: Part[] = []
for (const kind of kinds) {
  const start = PARTS[kind]
  if (start === undefined) throw new Error(`There is no kind ${kind}: ${Object.keys(PARTS).join(', ')}`)
  parts.push(await start())
}
let done = 0
let findings = 0
while (done < wanted && performance.now() < endMs) {
  const runs = Math.min(BATCH, wanted - done)
  for (const part of parts) {
    const found = await part.run(runs, Number(values.seed) + done)
    for (const finding of found) process.stdout.write(`${part.kind}: ${JSON.stringify(finding)}\n`)
    findings += found.length
  }
  done += runs
}
await Promise.all(parts.map(part => part.stop()))
process.stdout.write(
  `${done} runs each of ${kinds.join(', ')}, from seed ${values.seed}: ${findings} findings\n`,
)
process.exit(findings === 0 ? 0 : 1)
