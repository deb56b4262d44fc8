import { afterAll, beforeAll, describe } from 'vitest'
import { GO, HELM, has } from '../support/tools.ts'
import { ControlPlane } from './control-plane.ts'
import { buildChartTools, buildControlPlane } from './control-plane-programs.ts'

const BUILD_MS = 30 * 60_000
/** Ends a test that hangs; several run at once. */
export const STEP_MS = 10 * 60_000

/** Declares tests on the cluster that it gets, each in namespaces of its own. */
export type Part = (cluster: () => ControlPlane) => void

/** One API server for all parts: it takes longer to start than most tests on it. */
export function onControlPlane(...parts: readonly Part[]): void {
  describe.skipIf(![GO, HELM].every(has))('on a real Kubernetes API', () => {
    let cluster: ControlPlane
    beforeAll(async () => {
      buildControlPlane()
      buildChartTools()
      cluster = await ControlPlane.start()
    }, BUILD_MS)
    afterAll(() => cluster?.stop())
    for (const part of parts) part(() => cluster)
  })
}
