import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { CHART, MINIMAL, NAME, render } from '../support/chart.ts'
import { listAt, textAt, valueAt } from '../support/manifests.ts'
import { HELM, has } from '../support/tools.ts'
import { startWorld, type World } from '../support/world.ts'

const PROGRAM = fileURLToPath(new URL('../../src/main.ts', import.meta.url))
const SCRIPT = `${CHART}files/install-test.mjs`

let world: World
beforeAll(async () => {
  world = await startWorld()
})
afterAll(() => world.stop())

/** Runs the script of the test pod with these addresses. */
function runScript(env: Readonly<Record<string, string>> = {}): Promise<{ failed: boolean; output: string }> {
  const { gateway, console } = world
  const own = {
    PROGRAM,
    VERSION: '0.1.0',
    GATEWAY: gateway.urls.gateway,
    GATEWAY_OPS: gateway.urls.ops,
    CONSOLE: console.urls.console,
    CONSOLE_OPS: console.urls.ops,
    ATTEMPTS: '1',
    ...env,
  }
  const { promise, resolve } = Promise.withResolvers<{ failed: boolean; output: string }>()
  execFile(process.execPath, [SCRIPT], { env: own }, (error, stdout, stderr) =>
    resolve({ failed: error !== null, output: stdout + stderr }),
  )
  return promise
}

describe('helm test', () => {
  it('passes with a running gateway and console', async () => {
    const { failed, output } = await runScript()
    expect(output).not.toContain('FAILED')
    expect(output.match(/^ok: /gm)).toHaveLength(11)
    expect(failed).toBe(false)
  })

  it('fails if the image has another version than the chart, and names it', async () => {
    const { failed, output } = await runScript({ VERSION: '9.9.9' })
    expect(failed).toBe(true)
    expect(output).toContain('FAILED: the image is of version 9.9.9 (it prints 0.1.0)')
  })

  it('fails if the gateway is unreachable, and says why', async () => {
    const { failed, output } = await runScript({ GATEWAY: 'http://127.0.0.1:1' })
    expect(failed).toBe(true)
    expect(output).toContain('FAILED: the gateway rejects requests without a key (')
  })

  it('fails if a server accepts requests without a key', async () => {
    const { failed, output } = await runScript({ GATEWAY: world.gateway.urls.ops })
    expect(failed).toBe(true)
    expect(output).toContain('FAILED: the public port has no metrics')
  })

  it.skipIf(!has(HELM))(
    'runs in a pod with Postern’s image, which stays until the next run, so that its log can be read',
    () => {
      const rendering = render({ ...MINIMAL, console: { enabled: true } })
      const pod = rendering.get('Pod')
      const [container] = listAt(pod, 'spec.containers')
      expect(textAt(container, 'image')).toBe(
        textAt(listAt(rendering.get('Deployment'), 'spec.template.spec.containers')[0], 'image'),
      )
      expect(textAt(pod, 'metadata.annotations', 'helm.sh/hook-delete-policy')).toBe('before-hook-creation')
      expect(listAt(container, 'env').map(({ name }) => name)).toEqual([
        'PROGRAM',
        'VERSION',
        'GATEWAY',
        'GATEWAY_OPS',
        'CONSOLE',
        'CONSOLE_OPS',
      ])
      const services = rendering.all('Service').map(service => textAt(service, 'metadata.name'))
      for (const { value } of listAt(container, 'env').slice(2)) {
        expect(services).toContain(new URL(String(value)).hostname)
      }
      expect(services).toContain(`${NAME}-gateway-test-ops`)
      // helm test --logs fails on a hook that is no pod.
      const hooks = rendering.objects.filter(object =>
        valueAt(object, 'metadata.annotations', 'helm.sh/hook'),
      )
      expect(hooks.map(({ kind }) => kind)).toEqual(['Pod'])
    },
  )
})
