import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'

/** A program that tests run for real, and the Debian package that brings it. */
export interface Tool {
  readonly program: string
  readonly debianPackage: string
}

export const REDIS: Tool = { program: 'redis-server', debianPackage: 'redis-server' }
export const OPENSSL: Tool = { program: 'openssl', debianPackage: 'openssl' }
export const PROMTOOL: Tool = { program: 'promtool', debianPackage: 'prometheus' }
export const PROMETHEUS: Tool = { program: 'prometheus', debianPackage: 'prometheus' }
export const CURL: Tool = { program: 'curl', debianPackage: 'curl' }

/** Tools without which the suite makes no sense: it brings them itself where it may. */
export const REQUIRED_TOOLS: readonly Tool[] = [REDIS, OPENSSL]

/** Tools without which some suites cannot run: those are skipped by name, or fail where CI is set. */
export const OPTIONAL_TOOLS: readonly Tool[] = [PROMTOOL, PROMETHEUS, CURL]

export function has(tool: Tool): boolean {
  return spawnSync('sh', ['-c', `command -v ${tool.program}`]).status === 0
}

/** What no suite does without is brought by the tests themselves where they may: as root on Debian. */
export function ensure(tool: Tool): void {
  if (has(tool)) return
  if (process.getuid?.() !== 0 || !existsSync('/usr/bin/apt-get')) {
    throw new Error(
      `The tests need a real ${tool.program}: install it (Debian: apt-get install ${tool.debianPackage})`,
    )
  }
  process.stdout.write(`Installing ${tool.debianPackage}, which the tests need\n`)
  // RUNLEVEL=1 keeps Debian from starting it as a service: the tests start their own.
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' }
  execFileSync('apt-get', ['update', '-qq'], { env, stdio: ['ignore', 'ignore', 'inherit'] })
  execFileSync('apt-get', ['install', '-y', '-qq', '--no-install-recommends', tool.debianPackage], {
    env,
    stdio: ['ignore', 'ignore', 'inherit'],
  })
}
