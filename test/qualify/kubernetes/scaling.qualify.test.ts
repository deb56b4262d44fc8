import { AUTOSCALERS, describeScaling } from '../../kubernetes/describe-scaling.ts'

describeScaling(AUTOSCALERS)
