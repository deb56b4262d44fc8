import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { LUA_FILES } from './nginx.ts'
import { canPin } from './pinned.ts'

interface Requirement {
  readonly what: string
  readonly debianPackage: string
  readonly isHere: () => boolean
}

const program = (name: string, debianPackage: string): Requirement => ({
  what: name,
  debianPackage,
  isHere: () => spawnSync('sh', ['-c', `command -v ${name}`]).status === 0,
})
const file = (path: string, debianPackage: string): Requirement => ({
  what: path,
  debianPackage,
  isHere: () => existsSync(path),
})

/** Required for every measurement. */
const BASE = [program('wrk', 'wrk'), program('nginx', 'nginx-light'), program('redis-server', 'redis-server')]
/** Required for one contestant. */
const LUA = [
  file(LUA_FILES.module, 'libnginx-mod-http-lua'),
  file(LUA_FILES.redis, 'lua-nginx-redis'),
  file(LUA_FILES.lru, 'lua-resty-lrucache'),
  file(LUA_FILES.digest, 'lua-nginx-string'),
]

export interface Available {
  readonly canRun: boolean
  readonly lua: boolean
  /** Sentences for the user. */
  readonly notes: readonly string[]
}

/** @param programs those that this measurement needs beside the usual */
export function whatIsHere(programs: readonly string[]): Available {
  const base = [...BASE, ...programs.map(name => program(name, name))].filter(({ isHere }) => !isHere())
  const lua = LUA.filter(({ isHere }) => !isHere())
  const notes = [
    ...missing(base, 'Nothing can be measured'),
    ...missing(lua, 'The contestant nginx + Lua is left out'),
    ...(canPin
      ? []
      : [
          'There is only one core, or no taskset (Debian: util-linux), so load and contestants disturb each other.',
        ]),
  ]
  return { canRun: base.length === 0, lua: lua.length === 0, notes }
}

function missing(requirements: readonly Requirement[], consequence: string): string[] {
  if (requirements.length === 0) return []
  const names = requirements.map(({ what }) => what).join(', ')
  const packages = requirements.map(({ debianPackage }) => debianPackage).join(' ')
  return [`${consequence}: ${names} missing. Debian: apt-get install ${packages}`]
}
