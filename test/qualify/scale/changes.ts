import { PlayedGateways } from './played-gateways.ts'
import { describeTimes, observed, say } from './readings.ts'
import { countPending, ScaleWorld, type StoredKeyName, type WorldSize } from './world.ts'

const TICK_MS = 10
const WATCHED_EVERY_MS = 1_000
/** Beyond so many seconds of changes without an answer, the rate does not hold: no more are sent. */
const MAX_BEHIND_SECONDS = 3
/** Of the changes that were due. */
const HOLDS = 0.98

export interface ChangesPlan extends WorldSize {
  readonly gateways: number
  /** Changes a second, tried in this order until one does not hold. */
  readonly rates: readonly number[]
  readonly stepSeconds: number
  /** Then the highest that held. */
  readonly longSeconds: number
}

interface Outcome {
  readonly due: number
  readonly tookMs: readonly number[]
  readonly failed: number
  /** Answers that did not say that the change was announced to every region. */
  readonly late: number
  /** In all outboxes, each second. */
  readonly pending: readonly number[]
  /** Seconds of a gateway without heartbeats. */
  readonly disconnected: number
}

/** How many changes a second the control plane commits and announces: keys are suspended and resumed in turn. */
export async function measureChanges(plan: ChangesPlan): Promise<number> {
  const world = await ScaleWorld.start(plan)
  let gateways: PlayedGateways | null = null
  try {
    gateways = await PlayedGateways.start(world, plan.gateways)
    const keys = await world.activeKeys(Math.floor(plan.keys / 6))
    let highest = 0
    const sent = { count: 0 }
    for (const rate of plan.rates) {
      if (!(await holds(world, gateways, { keys, sent, rate, seconds: plan.stepSeconds }))) break
      highest = rate
    }
    if (highest > 0 && plan.longSeconds > 0) {
      await holds(world, gateways, { keys, sent, rate: highest, seconds: plan.longSeconds })
    }
    return highest
  } finally {
    await gateways?.stop()
    await world.stop()
  }
}

interface Load {
  readonly keys: readonly StoredKeyName[]
  /** In all steps: a key that is suspended already would be no change. */
  readonly sent: { count: number }
  readonly rate: number
  readonly seconds: number
}

async function holds(world: ScaleWorld, gateways: PlayedGateways, load: Load): Promise<boolean> {
  const title = `${load.rate} changes a second for ${load.seconds} s, ${gateways.stores.length} gateways`
  const outcome = await observed(world, title, () => change(world, gateways, load))
  await world.untilAnnounced()
  const { due, tookMs, failed, late, pending, disconnected } = outcome
  say(
    `  answered                     ${tookMs.length} of ${due}; ${failed} failed, ${late} not announced in time`,
  )
  say(`  answered after               ${describeTimes(tookMs)}`)
  say(`  in the outboxes              at most ${Math.max(0, ...pending)}, at the end ${pending.at(-1) ?? 0}`)
  say(`  gateways disconnected        ${disconnected} seconds of ${gateways.stores.length * load.seconds}`)
  return tookMs.length >= due * HOLDS && failed === 0 && disconnected === 0
}

/** At a fixed rate, however long the answers take. */
async function change(
  world: ScaleWorld,
  gateways: PlayedGateways,
  { keys, sent, rate, seconds }: Load,
): Promise<Outcome> {
  const tookMs: number[] = []
  const counts = { failed: 0, late: 0, disconnected: 0 }
  const pending: number[] = []
  const inFlight = new Set<Promise<void>>()
  const send = async (at: number) => {
    const key = keys[at % keys.length]
    const action = Math.floor(at / keys.length) % 2 === 0 ? 'suspend' : 'resume'
    const startedMs = performance.now()
    try {
      const { announced } = await world.admin<{ announced: boolean }>('POST', `/keys/${key?.id}/${action}`)
      tookMs.push(performance.now() - startedMs)
      if (!announced) counts.late++
    } catch (error) {
      if (counts.failed++ === 0) say(`  ${String(error).slice(0, 200)}`)
    }
  }
  const watch = setInterval(() => {
    countPending(world.database).then(
      count => void pending.push(count),
      () => {},
    )
    counts.disconnected += gateways.stores.filter(store => store.health().changes !== 'connected').length
  }, WATCHED_EVERY_MS)
  const startedMs = performance.now()
  const before = sent.count
  for (let elapsedMs = 0; elapsedMs < seconds * 1000; elapsedMs = performance.now() - startedMs) {
    const due = before + (elapsedMs / 1000) * rate
    for (; sent.count < due && inFlight.size < rate * MAX_BEHIND_SECONDS; sent.count++) {
      const sending: Promise<void> = send(sent.count).finally(() => inFlight.delete(sending))
      inFlight.add(sending)
    }
    await new Promise(resolve => setTimeout(resolve, TICK_MS))
  }
  await Promise.all(inFlight)
  clearInterval(watch)
  return { due: rate * seconds, tookMs, pending, ...counts }
}
