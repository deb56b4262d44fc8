import { describe, expect, test } from 'vitest'
import { MINIMAL, render } from '../support/chart.ts'
import { startConsole } from '../support/console.ts'
import { listAt, textAt } from '../support/manifests.ts'
import { trusting } from '../support/signed-in.ts'
import { HELM, has } from '../support/tools.ts'

const hosts = [{ host: 'keys.example.com' }]
const parentRefs = [{ name: 'internal' }]
const console = { enabled: true, ingress: { enabled: true, hosts }, httpRoute: { enabled: true, parentRefs } }

/** Paths of a fully configured console. */
async function pathsOfConsole(): Promise<string[]> {
  const paths: string[] = []
  const provider = { issuer: 'https://login.example.com', isPublicClient: true }
  const { app } = await startConsole(trusting(provider))
  app.addHook('onRoute', ({ url }) => void paths.push(url))
  await app.ready()
  return paths
}

describe.skipIf(!has(HELM))('from outside of the cluster', () => {
  const rendering = () => render({ ...MINIMAL, console })
  const isCovered = (path: string, rules: readonly (readonly [path: string, type: string])[]) =>
    rules.some(
      ([rule, type]) =>
        path === rule || (type !== 'Exact' && path.startsWith(rule === '/' ? rule : `${rule}/`)),
    )

  test.each(['Ingress', 'HTTPRoute'] as const)(
    'every path for people and programs is reached through the %s, and none for gateways',
    async kind => {
      const object = rendering().get(kind)
      const rules =
        kind === 'Ingress'
          ? listAt(object, 'spec.rules.0.http.paths').map(
              rule => [textAt(rule, 'path'), textAt(rule, 'pathType')] as const,
            )
          : listAt(object, 'spec.rules.0.matches').map(
              rule => [textAt(rule, 'path.value'), textAt(rule, 'path.type')] as const,
            )
      const paths = await pathsOfConsole()
      expect(paths).toContain('/sign-in/callback')
      expect(paths.filter(path => isCovered(path, rules) === path.startsWith('/internal/'))).toEqual([])
    },
  )
})
