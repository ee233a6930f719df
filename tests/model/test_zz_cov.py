import collections, json
from tests.model import machine, model as m
from tests.model.test_machine import test_the_engine_does_what_the_model_says as run
def test_cov(conn):
    C=collections.Counter(); K=collections.Counter(); claims=collections.Counter(); ag=collections.Counter()
    oset=m.Model._settle
    def ns(self,o,w):
        j=self.jobs.get(o.job_id); b=j and j.state
        v,e=oset(self,o,w); K[v.reason]+=1
        if v.ok: C[(o.kind,str(b),str(v.state),o.lease_id is None)]+=1
        return v,e
    m.Model._settle=ns
    oj=m.Model.claim
    def nj(self,g,*a,**k):
        claims[len(g)]+=1; return oj(self,g,*a,**k)
    m.Model.claim=nj
    oc=m.Model._cancel
    def nc(self,j):
        b=j.state; r=oc(self,j); C[("cancel",str(b),str(r))]+=1; return r
    m.Model._cancel=nc
    orig=machine._answer
    def na(act):
        r=orig(act)
        import inspect
        ag[(act.__qualname__, r[0], r[1] if r[0]=="refused" else str(r[1])[:12])]+=1
        return r
    machine._answer=na
    try: run(conn)
    finally:
        for n,c in (("K",K),("claims",claims),("C",C),("ag",ag)):
            print(n); [print("  ",k,v) for k,v in sorted(c.items(),key=str)]
