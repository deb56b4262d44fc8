import { describeKeyExamples } from './describe-key-examples.ts'
import { describeRelease } from './describe-release.ts'
import { AUTOSCALERS, describeScaling, NEWEST_HELM } from './describe-scaling.ts'
import { describeUpgrade } from './describe-upgrade.ts'
import { describeValues } from './describe-values.ts'
import { describeWalk } from './describe-walk.ts'
import { onControlPlane } from './on-control-plane.ts'

/**
 * Of autoscalers the chart's own by Helm 4, and of upgrades the one with PostgreSQL by Helm 3; `npm run qualify` takes the
 * others.
 */
onControlPlane(
  describeScaling(AUTOSCALERS.slice(0, 1), NEWEST_HELM),
  describeRelease,
  describeValues,
  describeUpgrade,
  describeWalk,
  describeKeyExamples,
)
