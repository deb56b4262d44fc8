import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { stringify } from 'yaml'
import { shellBlocks } from '../../docs/shell-blocks.ts'
import { render, WITH_CONSOLE } from '../../support/chart.ts'
import { listAt } from '../../support/manifests.ts'
import { type ActiveAlert, PrometheusServer } from '../../support/prometheus-server.ts'
import type { Breakable, Fault } from './faults.ts'

const PAGE = 'helm/runbooks/alerts.md'
const POLL_MS = 2_000
const RUNBOOK_MS = 60_000
const ROOT = fileURLToPath(new URL('../../../', import.meta.url))

export interface NightTimes {
  readonly scrapeSeconds: number
  readonly calmSeconds: number
  readonly brokenSeconds: number
  readonly mendedSeconds: number
}

/** An alert about one world, in seconds since the fault. */
export interface Firing {
  readonly alert: string
  readonly severity: string
  readonly description: string
  readonly fromSeconds: number
  /** Null if it fires at the end. */
  toSeconds: number | null
}

export interface NightRow {
  readonly fault: Fault
  readonly firings: readonly Firing[]
  /** Output of the commands of the runbook of the first alert that names the cause. */
  readonly runbook: { readonly alert: string; readonly output: string } | null
}

interface Room {
  readonly fault: Fault
  readonly broken: Breakable
  readonly firings: Firing[]
  runbook: NightRow['runbook']
}

/** The rules as the chart renders them, for every release that the night watches. */
function chartRules(): string {
  const prometheusRule = { enabled: true, selector: 'job=~"night-.+"' }
  const values = { ...WITH_CONSOLE, monitoring: { trustApis: true, prometheusRule } }
  return stringify({ groups: listAt(render(values).get('PrometheusRule'), 'spec.groups') })
}

/** Breaks every world at the same time, while one Prometheus watches, and mends it again. */
export async function runNight(
  faults: readonly Fault[],
  times: NightTimes,
  say: (text: string) => void,
): Promise<NightRow[]> {
  const rooms: Room[] = []
  let prometheus: PrometheusServer | null = null
  try {
    for (const fault of faults) {
      rooms.push({ fault, broken: await fault.begin(fault.name), firings: [], runbook: null })
      say(`${fault.name} runs`)
    }
    const targets = rooms.flatMap(({ broken }) => broken.world.targets)
    prometheus = await PrometheusServer.start(targets, [chartRules()], [], () => {}, times.scrapeSeconds)
    await watch(prometheus, rooms, { atSeconds: times.calmSeconds, untilSeconds: 0 })
    say('breaking')
    await Promise.all(rooms.map(({ broken }) => broken.breakIt()))
    const brokenAtMs = Date.now()
    await watch(prometheus, rooms, { brokenAtMs, untilSeconds: times.brokenSeconds })
    say('runbooks')
    for (const room of rooms) room.runbook = await carryOut(room)
    say('mending')
    await Promise.all(rooms.map(({ broken }) => broken.mend()))
    const untilSeconds = (Date.now() - brokenAtMs) / 1000 + times.mendedSeconds
    await watch(prometheus, rooms, { brokenAtMs, untilSeconds })
    return rooms.map(({ fault, firings, runbook }) => ({ fault, firings, runbook }))
  } finally {
    await prometheus?.stop()
    for (const { broken } of rooms) {
      await broken.world.stop()
      await broken.remove?.()
    }
  }
}

interface Watch {
  /** Without it: so long before the fault. */
  readonly brokenAtMs?: number
  readonly atSeconds?: number
  /** Since the fault. */
  readonly untilSeconds: number
}

async function watch(
  prometheus: PrometheusServer,
  rooms: readonly Room[],
  { atSeconds = 0, brokenAtMs = Date.now() + atSeconds * 1000, untilSeconds }: Watch,
): Promise<void> {
  for (;;) {
    const seconds = (Date.now() - brokenAtMs) / 1000
    const firing = await prometheus.firing()
    for (const room of rooms) note(room, firing, seconds)
    if (seconds >= untilSeconds) return
    await new Promise(resolve => setTimeout(resolve, POLL_MS))
  }
}

function note({ fault, firings }: Room, all: readonly ActiveAlert[], seconds: number): void {
  const own = all.filter(({ labels }) => labels['namespace'] === fault.name)
  const names = new Set(own.map(({ labels }) => labels['alertname']))
  for (const firing of firings) if (!names.has(firing.alert)) firing.toSeconds ??= seconds
  for (const { labels, annotations } of own) {
    const alert = labels['alertname'] ?? ''
    if (firings.some(firing => firing.alert === alert && firing.toSeconds === null)) continue
    const { severity = '' } = labels
    const { description = '' } = annotations
    firings.push({ alert, severity, description, fromSeconds: seconds, toSeconds: null })
  }
}

/** The commands that come first in the runbook of the alert that names the cause, or of what fired first. */
async function carryOut({ fault, broken, firings }: Room): Promise<NightRow['runbook']> {
  const alert = (firings.find(firing => fault.named.includes(firing.alert)) ?? firings[0])?.alert
  if (alert === undefined) return null
  const text = readFileSync(join(ROOT, PAGE), 'utf8')
  const section = text.split(/^### /m).find(part => part.startsWith(`${alert}\n`)) ?? ''
  const [first = ''] = section.split('**What to do.**')
  const blocks = shellBlocks(PAGE).map(block => block.text)
  const own = blocks.filter(block => first.replaceAll(/^ +/gm, '').includes(block.replaceAll(/^ +/gm, '')))
  const { world } = broken
  const addresses = `NS=${fault.name} API_URL=${world.gatewayUrl} REDIS_URL=${world.redis.url}`
  const prelude = (blocks[0] ?? '').replace(/^NS=.*$/m, addresses)
  return { alert, output: await runShell([prelude, ...own].join('\n'), JSON.stringify(world.pods())) }
}

async function runShell(script: string, pods: string): Promise<string> {
  const directory = mkdtempSync(join(tmpdir(), 'postern-runbook-'))
  writeFileSync(join(directory, 'pods.json'), pods)
  const kubectl = fileURLToPath(new URL('kubectl.ts', import.meta.url))
  writeFileSync(join(directory, 'kubectl'), `#!/bin/sh\nexec '${process.execPath}' '${kubectl}' "$@"\n`, {
    mode: 0o755,
  })
  const env = {
    ...process.env,
    PATH: `${directory}:${process.env['PATH']}`,
    NIGHT_PODS: join(directory, 'pods.json'),
  }
  const shell = spawn('timeout', [String(RUNBOOK_MS / 1000), 'bash', '--norc', '-c', script], {
    cwd: ROOT,
    env,
  })
  let output = ''
  for (const stream of [shell.stdout, shell.stderr])
    stream.setEncoding('utf8').on('data', (part: string) => {
      output += part
    })
  const [code] = (await once(shell, 'close')) as [number | null]
  rmSync(directory, { recursive: true, force: true })
  return code === 124 ? `${output}\n(the commands did not end within a minute)` : output
}
