import { AUTOSCALERS, describeScaling } from '../../kubernetes/describe-scaling.ts'
import { describeEveryUpgrade } from '../../kubernetes/describe-upgrade.ts'
import { onControlPlane } from '../../kubernetes/on-control-plane.ts'

onControlPlane(describeScaling(AUTOSCALERS), describeEveryUpgrade)
