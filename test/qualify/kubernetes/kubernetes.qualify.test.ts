import { AUTOSCALERS, describeScaling, HELM_VERSIONS } from '../../kubernetes/describe-scaling.ts'
import { describeEveryUpgrade } from '../../kubernetes/describe-upgrade.ts'
import { onControlPlane } from '../../kubernetes/on-control-plane.ts'

onControlPlane(describeScaling(AUTOSCALERS, HELM_VERSIONS), describeEveryUpgrade)
