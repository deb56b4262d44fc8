import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { contestantNamed, startContestants } from './contestants.ts'
import { measureOnce } from './measure.ts'
import { writePerformance } from './pages.ts'
import { machine } from './results.ts'
import { median } from './statistics.ts'
import { table } from './tables.ts'
import type { BenchWorld } from './world.ts'

const NAME = 'gateway, 0.4 KB'
const ROUNDS = 5
const SECONDS = 2
const PROFILED_SECONDS = 6

/** Steps of a request, each with the functions that belong to it; the first match counts. */
const STEPS: readonly (readonly [step: string, where: RegExp])[] = [
  ['writing to both sockets: system calls', /^native write(?:v|Latin1String|Utf8String)$/],
  ['collecting garbage', /^native \(garbage collector\)$/],
  ['metrics, access log', /^src\/observability\/|^native writeBuffer$/],
  [
    'key format, MAC and digest',
    /^node:internal\/crypto|^src\/domain\/secret|\/(?:credential|key-check)\.ts$/,
  ],
  [
    'head, route, lookup, decision',
    /^src\/(?:domain|keystore)\/|\/(?:request-head|request-id|handle-request|server|admission|client-connection|guard-connections|request-boundaries|answer)\.ts$|^native RegExp/,
  ],
  ['request and response headers, deadlines, response', /^src\/gateway\//],
  ['undici, its parser', /^undici$|^wasm/],
  ['Fastify, reply-from', /^(?:fastify|@fastify\/.*|find-my-way|toad-cache)$/],
  ['Node: HTTP, its parser', /^node:_http/],
  ['Node: sockets, streams, timers, events; reading and polling', /^node:|^native/],
]
const OTHER = 'other packages'

interface Profile {
  readonly nodes: readonly { readonly id: number; readonly callFrame: CallFrame }[]
  readonly samples: readonly number[]
  readonly timeDeltas: readonly number[]
}
interface CallFrame {
  readonly functionName: string
  readonly url: string
}

/** Processor time of each step of a forwarded request: shares of a profile, applied to the time measured without profiling. */
export async function measureBudget(world: BenchWorld): Promise<string> {
  const plain = await gatewayOf(world, [])
  await measureOnce(plain, 3)
  const times: number[] = []
  for (let round = 0; round < ROUNDS; round++) {
    times.push((await measureOnce(plain, SECONDS)).cpuUs)
  }
  const profiles = join(world.directory, 'profiles')
  const profiled = await gatewayOf(world, [
    '--cpu-prof',
    '--cpu-prof-interval=200',
    `--cpu-prof-dir=${profiles}`,
  ])
  await measureOnce(profiled, PROFILED_SECONDS)
  await world.stopGateways()
  const [file = ''] = readdirSync(profiles)
  // The format that V8 writes.
  const profile = JSON.parse(readFileSync(join(profiles, file), 'utf8')) as Profile
  const text = describe(sharesOf(profile), median(times))
  writePerformance('bench-budget', text)
  return text
}

async function gatewayOf(world: BenchWorld, nodeFlags: readonly string[]) {
  const all = await startContestants(world, { lua: false, against: null, nodeFlags })
  return contestantNamed(NAME, all)
}

/** Uses the last two thirds of the samples, because the profile begins with start and warm-up. */
function sharesOf({ nodes, samples, timeDeltas }: Profile): Map<string, number> {
  const frames = new Map(nodes.map(({ id, callFrame }) => [id, callFrame]))
  const endUs = timeDeltas.reduce((sum, delta) => sum + delta, 0)
  const fromUs = endUs - ((PROFILED_SECONDS * 1e6) / 3) * 2
  const timeOf = new Map<string, number>([...STEPS.map(([step]) => step), OTHER].map(step => [step, 0]))
  let [atUs, busyUs] = [0, 0]
  for (const [index, id] of samples.entries()) {
    const deltaUs = timeDeltas[index] ?? 0
    atUs += deltaUs
    const frame = frames.get(id)
    if (atUs < fromUs || frame === undefined || frame.functionName === '(idle)') continue
    busyUs += deltaUs
    const step = stepOf(frame)
    timeOf.set(step, (timeOf.get(step) ?? 0) + deltaUs)
  }
  return new Map([...timeOf].map(([step, us]) => [step, us / busyUs]))
}

function stepOf({ functionName, url }: CallFrame): string {
  const where = placeOf(functionName, url)
  return STEPS.find(([, pattern]) => pattern.test(where))?.[0] ?? OTHER
}

function placeOf(functionName: string, url: string): string {
  if (url === '') return `native ${functionName}`
  const packageName = /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url)?.[1]
  return packageName ?? /src\/.*$/.exec(url)?.[0] ?? url
}

function describe(shares: ReadonlyMap<string, number>, cpuUs: number): string {
  const rows = [...shares].map(([step, share]) => [
    step,
    (share * cpuUs).toFixed(1),
    `${(share * 100).toFixed(0)} %`,
  ])
  return [
    `\`npm run bench -- --budget\`, ${new Date().toISOString().slice(0, 10)}, ${machine()}: one forwarded response of 0.4 KB, with`,
    '64 connections; shares of a profile, applied to the time measured without profiling.',
    '',
    table(['', 'µs of processor', 'share'], [...rows, ['all', cpuUs.toFixed(1), '']]),
  ].join('\n')
}
