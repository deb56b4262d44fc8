import { execFile } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { programsFolder } from '../docs/shell-blocks.ts'
import { goProgram } from '../support/go-module-program.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'
import { startWorld, type World } from '../support/world.ts'
import type { ControlPlane } from './control-plane.ts'
import {
  exampleFile,
  keyIdAtGateway,
  keysWith,
  runnerEnvironment,
  secretValue,
  tokenForKeys,
} from './key-examples.ts'
import { OPENTOFU } from './key-programs.ts'
import { type Part, STEP_MS } from './on-control-plane.ts'

const BUILD_MS = 30 * 60_000
const LABEL = 'OpenTofu orders-api'
const DAY_MS = 86_400_000
const SECRET = /wsk_\w+/

let cluster: ControlPlane
let world: World
let token: string

/** The configuration of the page, unchanged, in a folder of its own. */
class Configuration {
  readonly #folder = temporaryDirectory()
  /** Output of all commands. */
  output = ''

  constructor() {
    writeFileSync(join(this.#folder, 'main.tf'), exampleFile('main.tf'))
  }

  /** @param more environment in place of that of the test @returns whether the command succeeded */
  async tofu(args: readonly string[], more: Readonly<Record<string, string>> = {}): Promise<boolean> {
    const env = { ...runnerEnvironment(cluster, world, token), TF_IN_AUTOMATION: '1', ...more }
    const { promise, resolve } = Promise.withResolvers<boolean>()
    execFile(goProgram(OPENTOFU), args, { cwd: this.#folder, env }, (error, stdout, stderr) => {
      this.output += stdout + stderr
      resolve(error === null)
    })
    return promise
  }

  apply(rotatedOn: string, more: Readonly<Record<string, string>> = {}): Promise<boolean> {
    return this.tofu(['apply', '-no-color', '-auto-approve', `-var=rotated_on=${rotatedOn}`], more)
  }

  destroy(): Promise<boolean> {
    return this.tofu(['destroy', '-no-color', '-auto-approve', '-var=rotated_on=never'])
  }

  /** State and its backup. */
  get files(): string {
    return ['terraform.tfstate', 'terraform.tfstate.backup']
      .map(name => join(this.#folder, name))
      .filter(existsSync)
      .map(file => readFileSync(file, 'utf8'))
      .join('\n')
  }
}

/** In place of kubectl a program that kills the shell of the provisioner, as the end of the machine would. */
function pathThatKills(): string {
  const folder = temporaryDirectory()
  writeFileSync(join(folder, 'kubectl'), '#!/bin/sh\nkill -KILL "$PPID"\n', { mode: 0o755 })
  return [folder, programsFolder(), process.env['PATH']].join(':')
}

const stored = () => secretValue(cluster, ['default', 'orders-api-key'])
const statesOf = async () => (await keysWith(world, LABEL)).map(({ state }) => state)

/** OpenTofu itself, the command line, and kubectl on a real API. */
export const describeOpenTofu: Part = shared =>
  describe('OpenTofu with docs/keys-as-code/main.tf', { timeout: STEP_MS }, () => {
    beforeAll(async () => {
      cluster = shared()
      goProgram(OPENTOFU)
      world = await startWorld()
      token = await tokenForKeys(world)
    }, BUILD_MS)
    afterAll(() => world?.stop())

    it('issues a key, rotates it with an overlap, and revokes all of them when it is destroyed', async () => {
      const configuration = new Configuration()
      expect(await configuration.tofu(['init', '-no-color']), configuration.output).toBe(true)
      expect(await configuration.apply('2026-11-01'), configuration.output).toBe(true)
      const first = await stored()
      expect(await keyIdAtGateway(world, first)).toMatch(/^key_/)
      expect(await configuration.tofu(['fmt', '-check'])).toBe(true)
      // Nothing changed, so the key stays.
      expect(await configuration.apply('2026-11-01'), configuration.output).toBe(true)
      expect(await stored()).toBe(first)

      await configuration.tofu(['plan', '-var=rotated_on=2026-12-01', '-out=plan'])
      expect(await configuration.tofu(['show', '-json', 'plan']), configuration.output).toBe(true)
      expect(await configuration.apply('2026-12-01'), configuration.output).toBe(true)
      const second = await stored()
      const ids = [await keyIdAtGateway(world, second), await keyIdAtGateway(world, first)]
      const [newest, older] = await keysWith(world, LABEL)
      expect(ids).toEqual([newest?.id, older?.id])
      expect(Date.parse(older?.expiresAt ?? '') - Date.now()).toBeLessThanOrEqual(DAY_MS)
      expect(Date.parse(newest?.expiresAt ?? '') - Date.now()).toBeGreaterThan(89 * DAY_MS)

      // A second rotation within the overlap.
      expect(await configuration.apply('2026-12-02'), configuration.output).toBe(true)
      const third = await stored()
      for (const secret of [first, second, third])
        expect(await keyIdAtGateway(world, secret)).toMatch(/^key_/)
      expect(configuration.files).toContain('orders-api')
      expect(configuration.files + configuration.output).not.toMatch(SECRET)

      expect(await configuration.destroy(), configuration.output).toBe(true)
      expect(new Set(await statesOf())).toEqual(new Set(['revoked']))
      expect([await stored(), await keyIdAtGateway(world, third)]).toEqual([null, null])
    })

    it('revokes a key that does not reach its Secret, keeps the old one working, and repairs that at the next run', async () => {
      const configuration = new Configuration()
      await configuration.tofu(['init', '-no-color'])
      expect(await configuration.apply('2026-11-01'), configuration.output).toBe(true)
      const first = await stored()
      const before = (await keysWith(world, LABEL)).length
      const unreachable = { KUBECONFIG: join(temporaryDirectory(), 'missing') }
      expect(await configuration.apply('2026-12-01', unreachable)).toBe(false)
      const [lost, ...others] = await keysWith(world, LABEL)
      expect([lost?.state, others.length]).toEqual(['revoked', before])
      expect(await stored()).toBe(first)
      expect(await keyIdAtGateway(world, first)).toMatch(/^key_/)

      expect(await configuration.apply('2026-12-01'), configuration.output).toBe(true)
      const ids = [await keyIdAtGateway(world, await stored()), await keyIdAtGateway(world, first)]
      const usable = (await keysWith(world, LABEL)).filter(({ state }) => state === 'active')
      expect(usable.map(({ id }) => id)).toEqual(ids)
      expect(Date.parse(usable[1]?.expiresAt ?? '') - Date.now()).toBeLessThanOrEqual(DAY_MS)

      expect(await configuration.destroy(), configuration.output).toBe(true)
      expect(new Set(await statesOf())).toEqual(new Set(['revoked']))
    })

    it('gives an end to a key whose secret was lost when the machine stopped, once another one is stored', async () => {
      const configuration = new Configuration()
      await configuration.tofu(['init', '-no-color'])
      expect(await configuration.apply('2026-11-01'), configuration.output).toBe(true)
      const first = await stored()
      expect(await configuration.apply('2026-12-01', { PATH: pathThatKills() })).toBe(false)
      const [lost] = await keysWith(world, LABEL)
      expect([lost?.state, await stored()]).toEqual(['active', first])

      expect(await configuration.apply('2026-12-01'), configuration.output).toBe(true)
      const [newest, ...others] = (await keysWith(world, LABEL)).filter(({ state }) => state === 'active')
      expect(await keyIdAtGateway(world, await stored())).toBe(newest?.id)
      const ends = others.map(({ id, expiresAt }) => [id, Date.parse(expiresAt) - Date.now() <= DAY_MS])
      expect(ends).toEqual([
        [lost?.id, true],
        [await keyIdAtGateway(world, first), true],
      ])
      expect(await configuration.destroy(), configuration.output).toBe(true)
    })
  })
