import type { Announcer } from './announcing/announcer.ts'
import type { Regions } from './announcing/regions.ts'
import type { OpenRegistry } from './keys/index.ts'

export interface ConsoleHealth {
  readonly database: 'ok' | 'failed'
  /** Without Redis, changes wait in the database and are announced later. */
  readonly announcer: AnnouncerState | 'degraded'
  /** By name, if the settings name any. */
  readonly regions?: Readonly<Record<string, AnnouncerState>>
}

type AnnouncerState = ReturnType<Announcer['state']>

export async function checkHealth({ databaseHealth, regions }: OpenRegistry): Promise<ConsoleHealth> {
  return { database: await databaseHealth.state(), ...announcerHealth(regions) }
}

/** A region that is down does not make a console unready: the others get every change. */
function announcerHealth({ list, areNamed }: Regions): Omit<ConsoleHealth, 'database'> {
  const states = list.map(({ name, announcer }) => [name, announcer.state()] as const)
  const [first] = states
  const isSame = first !== undefined && states.every(([, state]) => state === first[1])
  const announcer = isSame ? first[1] : 'degraded'
  return areNamed ? { announcer, regions: Object.fromEntries(states) } : { announcer }
}
