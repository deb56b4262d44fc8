import { expect, onTestFinished, test } from 'vitest'
import { KEY_SERVICE_TOKEN, SIGNING_SECRET } from '../../support/console.ts'
import { Parts } from '../../support/parts.ts'
import { startSignIn } from '../../support/signed-in.ts'
import { until } from '../../support/until.ts'

/** Instead of 10 s: gateways without requests report every 0.6 s. */
const REPORT_SECONDS = '0.2'

async function started() {
  const world = await startSignIn()
  const internal = await world.console.internal.listen({ host: '127.0.0.1', port: 0 })
  const parts = new Parts()
  onTestFinished(() => parts.stop())
  const upstream = await parts.upstream()
  const settings = {
    POSTERN_KEY_SERVICE_URL: internal,
    POSTERN_KEY_SERVICE_TOKEN: KEY_SERVICE_TOKEN,
    POSTERN_KEYS_SIGNING_SECRETS: SIGNING_SECRET.toString('base64'),
    POSTERN_UPSTREAM_URL: upstream.url,
    POSTERN_USAGE_REPORT_SECONDS: REPORT_SECONDS,
  }
  const gateways = await Parts.several(2, () => parts.gateway(settings))
  const ada = await world.signedIn({ sub: 'ada', workspaces: ['ws_1'] })
  /** Until when the page says that counts are complete; null if it does not say. */
  const asOf = async () => {
    const { text } = await ada.browser.visit('/workspaces/ws_1/usage')
    return /reported them until .*?(\d\d:\d\d:\d\d)/.exec(text.replace(/<[^>]*>/g, ' '))?.[1] ?? null
  }
  const movesOn = async () => {
    const before = await asOf()
    await until('the page says a later time', async () => {
      const now = await asOf()
      return now !== null && now !== before
    })
  }
  return { gateways, asOf, movesOn }
}

test('the time until which counts are complete moves on while no gateway has requests, and waits for one that is silent', async () => {
  const { gateways, asOf, movesOn } = await started()
  await movesOn()
  await movesOn()
  const [silent, other] = gateways
  silent?.process.child.kill('SIGSTOP')
  // What was on its way arrives.
  const reports = async () => {
    const metrics = await (await fetch(`${other?.urls.ops}/metrics`)).text()
    return Number(/^postern_usage_reports_sent_total\{outcome="accepted"\} (\d+)$/m.exec(metrics)?.[1])
  }
  const waitForReports = async (number: number) => {
    const before = await reports()
    await until('the other gateway has reported', async () => (await reports()) >= before + number)
  }
  await waitForReports(1)
  const before = await asOf()
  await waitForReports(3)
  expect(await asOf()).toBe(before)
  silent?.process.child.kill('SIGCONT')
  await movesOn()
})
