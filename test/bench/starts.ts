import { setTimeout as pause } from 'node:timers/promises'
import { V8_FLAGS } from '../support/start-arguments.ts'
import { buildForm } from './built-form.ts'
import { startsSection, writeResultSections } from './pages.ts'
import { residentBytes } from './processor-time.ts'
import { readResults, type Start, saveStarts } from './results.ts'
import type { ServerProcess } from './server-process.ts'
import { median } from './statistics.ts'
import type { BenchWorld } from './world.ts'

const ROUNDS = 5
const SETTLE_MS = 2_000
/** Node's own variable. */
const WITHOUT_CACHE = { NODE_DISABLE_COMPILE_CACHE: '1' }

/** Time to readiness and idle memory of a gateway in each form, and the lower bound for Node. */
export async function measureStarts(world: BenchWorld): Promise<string> {
  const built = [...V8_FLAGS, buildForm(world.directory)]
  const forms: Readonly<Record<string, (name: string) => Promise<ServerProcess>>> = {
    'gateway, built, as in the image': name => world.startGateway(name, {}, { words: built }),
    'gateway, `npm start`': name => world.startGateway(name),
    'gateway, `npm start` for the first time': name => world.startGateway(name, WITHOUT_CACHE),
    'a bare server and the same packages, unused': name => world.startNode('packages-alone.mjs', name),
  }
  saveStarts({ rounds: ROUNDS, forms: await startsOf(forms) })
  writeResultSections()
  return startsSection(readResults())
}

/** Medians of starts in turns, by form. The first of each form does not count: it fills the compile cache. */
export async function startsOf<Form extends string>(
  forms: Readonly<Record<Form, (name: string) => Promise<ServerProcess>>>,
): Promise<Record<Form, Start>> {
  const starts = new Map<string, Start[]>(Object.keys(forms).map(form => [form, []]))
  for (let round = 0; round <= ROUNDS; round++) {
    for (const [form, start] of Object.entries<(name: string) => Promise<ServerProcess>>(forms)) {
      const measured = await measureStart(await start(`start-${form.replaceAll(/\W+/g, '-')}`))
      if (round > 0) starts.get(form)?.push(measured)
    }
  }
  const medians = [...starts].map(([form, all]) => [
    form,
    {
      readyAfterMs: median(all.map(start => start.readyAfterMs)),
      idleMegabytes: median(all.map(start => start.idleMegabytes)),
    },
  ])
  // The names of `forms`.
  return Object.fromEntries(medians) as Record<Form, Start>
}

async function measureStart(server: ServerProcess): Promise<Start> {
  await pause(SETTLE_MS)
  const idleMegabytes = residentBytes(server.pid) / 1024 / 1024
  await server.stop()
  return { readyAfterMs: server.readyAfterMs, idleMegabytes }
}
