import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { programsFolder } from '../docs/shell-blocks.ts'
import { textAt } from '../support/manifests.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'
import type { World } from '../support/world.ts'
import type { ControlPlane } from './control-plane.ts'
import { programOf } from './control-plane-programs.ts'

/** A file of docs/keys-as-code. */
export const exampleFile = (name: string) =>
  readFileSync(new URL(`../../docs/keys-as-code/${name}`, import.meta.url), 'utf8')

/** A key as the examples of docs/keys-as-code.md leave it in a Kubernetes Secret, and as the gateway and the console see it. */
export interface ShownKey {
  readonly id: string
  readonly state: string
  readonly createdAt: string
  readonly expiresAt: string
}

/** @returns a value of a Secret; null if there is no such Secret */
export async function secretValue(
  cluster: ControlPlane,
  [namespace, name]: readonly [namespace: string, name: string],
  field = 'key',
): Promise<string | null> {
  const secret = (await cluster.list('secret', namespace)).find(one => textAt(one, 'metadata.name') === name)
  return secret === undefined ? null : Buffer.from(textAt(secret, 'data', field), 'base64').toString()
}

/** @returns the id of the key as the gateway describes it; null if it refuses the key */
export async function keyIdAtGateway({ gateway }: World, secret: string | null): Promise<string | null> {
  const headers = { authorization: `Bearer ${secret}` }
  const response = await fetch(`${gateway.urls.gateway}/api/v1/auth`, { headers })
  return response.ok ? ((await response.json()) as { readonly keyId: string }).keyId : null
}

/** All keys of the workspace of the examples with this text, newest first. */
export async function keysWith({ admin }: World, text: string): Promise<readonly ShownKey[]> {
  const { json } = await admin('GET', `/keys?workspaceId=ws_1&q=${encodeURIComponent(text)}`)
  return json['keys'] as readonly ShownKey[]
}

/** @returns a token with the one permission that the examples need */
export async function tokenForKeys({ admin }: World): Promise<string> {
  const wanted = { name: 'keys as code', permissions: ['keys:write'], workspaces: ['ws_1'], expiresInDays: 1 }
  return String((await admin('POST', '/tokens', wanted)).json['secret'])
}

/** Environment of a machine that runs OpenTofu: `postern`, kubectl, the console and the token. */
export function runnerEnvironment(cluster: ControlPlane, world: World, token: string) {
  const file = join(temporaryDirectory(), 'token')
  writeFileSync(file, token, { mode: 0o600 })
  return {
    ...process.env,
    PATH: [programsFolder(), dirname(programOf('kubectl')), process.env['PATH']].join(':'),
    KUBECONFIG: cluster.kubeconfig,
    POSTERN_CONSOLE_URL: world.console.urls.console,
    POSTERN_ADMIN_TOKEN_FILE: file,
  }
}
