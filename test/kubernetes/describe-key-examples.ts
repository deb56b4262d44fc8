import { execFile } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parse, parseAllDocuments, stringify } from 'yaml'
import { temporaryDirectory } from '../support/temporary-directory.ts'
import { startWorld, type World } from '../support/world.ts'
import type { ControlPlane } from './control-plane.ts'
import { definitionFiles } from './custom-resources.ts'
import {
  exampleFile,
  keyIdAtGateway,
  keysWith,
  runnerEnvironment,
  secretValue,
  tokenForKeys,
} from './key-examples.ts'
import { type Part, STEP_MS } from './on-control-plane.ts'

const CONFIGURATION = exampleFile('main.tf')
const PAGE = readFileSync(new URL('../../docs/keys-as-code.md', import.meta.url), 'utf8')
const LABEL = 'OpenTofu orders-api'

let cluster: ControlPlane
let world: World
let token: string

/** What OpenTofu gives to the commands of the configuration. */
const VALUES = Object.fromEntries(
  [...CONFIGURATION.matchAll(/^ {4}(\w+) += "(.*)"$/gm)].map(([, name = '', value = '']) => [name, value]),
)
const [CREATE = '', DESTROY = ''] = [...CONFIGURATION.matchAll(/<<-EOT\n([\s\S]*?)\n *EOT$/gm)].map(
  ([, command = '']) => command,
)

/** Runs a command of the configuration, as a provisioner does. @returns whether it succeeded, and what it printed */
function provision(command: string, more: Readonly<Record<string, string>> = {}): Promise<[boolean, string]> {
  const env = { ...runnerEnvironment(cluster, world, token), ...VALUES, ...more }
  const { promise, resolve } = Promise.withResolvers<[boolean, string]>()
  execFile('bash', ['-euo', 'pipefail', '-c', command], { env }, (error, stdout, stderr) =>
    resolve([error === null, stdout + stderr]),
  )
  return promise
}

/** @returns the configuration of a user who has the rights that the page names, and no other */
async function userOfThePage(): Promise<string> {
  const metadata = { name: 'opentofu', namespace: 'default' }
  const [, named = ''] = /of Kubernetes (.*) for this Secret/.exec(PAGE) ?? []
  const verbs = [...named.matchAll(/`(\w+)`/g)].map(([, verb]) => verb)
  const apiGroup = 'rbac.authorization.k8s.io'
  const ofRoles = { apiVersion: `${apiGroup}/v1`, metadata }
  await cluster.apply(
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata },
    { ...ofRoles, kind: 'Role', rules: [{ apiGroups: [''], resources: ['secrets'], verbs }] },
    {
      ...ofRoles,
      kind: 'RoleBinding',
      subjects: [{ kind: 'ServiceAccount', ...metadata }],
      roleRef: { kind: 'Role', name: metadata.name, apiGroup },
    },
  )
  const user = { token: (await cluster.kubectl('-n', 'default', 'create', 'token', metadata.name)).trim() }
  const config = parse(readFileSync(cluster.kubeconfig, 'utf8')) as object
  const file = join(temporaryDirectory(), 'kubeconfig')
  writeFileSync(file, stringify({ ...config, users: [{ name: 'test', user }] }), { mode: 0o600 })
  return file
}

const stored = () => secretValue(cluster, ['default', 'orders-api-key'])

/** What `npm run qualify` does with OpenTofu and External Secrets themselves, as far as it needs neither of them. */
export const describeKeyExamples: Part = shared =>
  describe('the examples of docs/keys-as-code.md', { timeout: STEP_MS }, () => {
    beforeAll(async () => {
      cluster = shared()
      const files = definitionFiles().filter(file => file.includes('external-secrets'))
      await cluster.kubectl('create', ...files.flatMap(file => ['-f', file]))
      world = await startWorld()
      token = await tokenForKeys(world)
    })
    afterAll(() => world?.stop())

    it('has manifests that Kubernetes accepts with the definitions of External Secrets, field by field', async () => {
      const manifests = parseAllDocuments(exampleFile('external-secrets.yaml'))
      const objects = manifests.map(document => document.toJS() as object)
      const { ok, stderr } = await cluster.create(objects, '--dry-run=server', '--validate=strict')
      expect([objects.length, ok, stderr]).toEqual([2, true, ''])
    })

    it('has commands for OpenTofu that issue, rotate and revoke a key with the rights that the page names, and never print it', async () => {
      const KUBECONFIG = await userOfThePage()
      const outcomes = [await provision(CREATE, { id: 'first-creation', KUBECONFIG })]
      const first = await stored()
      outcomes.push(await provision(CREATE, { id: 'second-creation', KUBECONFIG }))
      const second = await stored()
      const ids = [await keyIdAtGateway(world, second), await keyIdAtGateway(world, first)]
      const [newest, older] = await keysWith(world, LABEL)
      expect(ids).toEqual([newest?.id, older?.id])
      expect(Date.parse(older?.expiresAt ?? '') - Date.now()).toBeLessThanOrEqual(86_400_000)

      outcomes.push(await provision(DESTROY, { KUBECONFIG }))
      const states = (await keysWith(world, LABEL)).map(({ state }) => state)
      expect([await stored(), ...states]).toEqual([null, 'revoked', 'revoked'])
      const output = outcomes.map(([, printed]) => printed).join('')
      expect(
        outcomes.map(([ok]) => ok),
        output,
      ).toEqual([true, true, true])
      expect(output).not.toMatch(/wsk_\w+/)
    })
  })
