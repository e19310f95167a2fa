//! What functions do to the state of a library, as data: names, and an action for each.
//!
//! Names are matched without the letters of vendors at their end; the first rule that fits holds. What no rule knows is
//! kept, with everything that it might need.

use crate::objects::Class;

/// What a call does, as far as what comes later may need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Unknown: it is kept.
    Unknown,
    /// It has an effect of its own that needs nothing, and is kept.
    Keep,
    /// It asks, and changes nothing.
    Query,
    /// It asks, but the answer may go into a buffer that is bound at this target.
    Pack(u64),
    /// It draws.
    Draw,
    /// It draws what was drawn before.
    DrawShown,
    /// It clears.
    Clear,
    /// A frame ends: what was drawn is gone.
    Swap,
    /// Drawing begins; values follow, call by call.
    Begin,
    /// Drawing ends.
    End,
    /// A corner of what is drawn.
    Vertex,
    /// It sets a value, which holds until it is set again for the same target.
    State,
    /// It switches something on or off.
    Switch,
    /// It chooses a texture unit.
    ActiveTexture,
    /// It chooses the texture unit that arrays of coordinates are for.
    ClientTexture,
    /// It changes a value without setting all of it.
    Accumulate,
    /// A context begins to be used by a thread.
    MakeCurrent,
    /// Names of objects come back in an argument or as the result.
    Generate,
    /// A range of lists comes back.
    GenLists,
    /// Objects go.
    Delete,
    /// Lists go.
    DeleteLists,
    /// An object is bound at a target, or used.
    Bind(Class),
    /// An object is bound at a numbered place.
    BindAt(Class),
    /// Objects are bound at several numbered places.
    BindRange(Class),
    /// What is bound at a target changes, all of a part of it, named by its level.
    Replace(Class),
    /// What is bound at a target changes.
    Change(Class),
    /// The program in use gets a value.
    Uniform,
    /// Where vertices come from: the vertex array in use changes, and needs the buffer that is bound.
    Source,
    /// The object that is named first changes, and needs the others.
    Named,
    /// A query or the like ends at a target.
    Finish(Class),
    /// A list is recorded from here on.
    NewList,
    /// It is complete.
    EndList,
    /// A list is run.
    CallList,
    /// The kind of matrices that the next calls are about.
    MatrixMode,
    /// The matrix is set.
    LoadMatrix,
    /// It is multiplied.
    MultMatrix,
    /// It is remembered.
    PushMatrix,
    /// It is remembered no more.
    PopMatrix,
    /// Much of the state is remembered, or comes back.
    Attributes,
    /// What vertices become is captured, from here on or no longer.
    Capture,
    /// A buffer is mapped to memory.
    Map,
    /// It asks about a configuration of frame buffers, which counts if a context is made for that.
    Config,
    /// Memory is written, which may be that of a buffer.
    Copy,
}

use Action::*;

/// The target that pixels are packed to.
const PIXEL_PACK_BUFFER: u64 = 0x88eb;
/// The target that answers of queries go to.
const QUERY_BUFFER: u64 = 0x9192;

/// Names and actions. A star stands for anything.
const RULES: &[(&str, Action)] = &[
    // What must stay although it looks like a question: a replayer learns new names from it.
    ("glGetUniformLocation", Named),
    ("glGetAttribLocation", Named),
    ("glGetUniformBlockIndex", Named),
    ("glGetFragDataLocation", Named),
    ("glGetSubroutine*", Named),
    ("glGetProgramResource*", Named),
    ("glGetUniformIndices", Named),
    ("glGetTextureHandle", Keep),
    ("glGetTextureSamplerHandle", Keep),
    ("glGetImageHandle", Keep),
    // Questions.
    ("glReadPixels", Pack(PIXEL_PACK_BUFFER)),
    ("glReadnPixels", Pack(PIXEL_PACK_BUFFER)),
    ("glGetTexImage", Pack(PIXEL_PACK_BUFFER)),
    ("glGetCompressedTexImage", Pack(PIXEL_PACK_BUFFER)),
    ("glGetQueryObject*", Pack(QUERY_BUFFER)),
    ("glGet*", Query),
    ("glIs*", Query),
    ("glCheckFramebufferStatus", Query),
    ("glCheckNamedFramebufferStatus", Query),
    ("glAreTexturesResident", Query),
    ("glValidateProgram", Query),
    ("glFinish", Query),
    ("glFlush", Query),
    ("glObjectLabel", Query),
    ("glObjectPtrLabel", Query),
    ("glLabelObject", Query),
    ("glStringMarker", Query),
    ("glDebugMessageInsert", Query),
    ("glInsertEventMarker", Query),
    ("glFrameTerminator", Swap),
    // Drawing.
    ("glBegin", Begin),
    ("glEnd", End),
    ("glVertex2*", Vertex),
    ("glVertex3*", Vertex),
    ("glVertex4*", Vertex),
    ("glArrayElement", Vertex),
    ("glEvalCoord*", Vertex),
    ("glEvalPoint*", Vertex),
    ("glClear", Clear),
    ("glClearBuffer*", Draw),
    ("glClearNamedFramebuffer*", Draw),
    ("glBlitFramebuffer", DrawShown),
    ("glBlitNamedFramebuffer", DrawShown),
    ("glAccum", Draw),
    ("glBitmap", Draw),
    ("glCopyPixels", DrawShown),
    ("glDrawPixels", Draw),
    ("glRect*", Draw),
    ("glDrawBuffer*", Change(Class::Framebuffer)),
    ("glReadBuffer", Change(Class::Framebuffer)),
    ("glColorMask", State),
    ("glMultiDraw*", Draw),
    ("glDraw*", Draw),
    // Lists.
    ("glNewList", NewList),
    ("glEndList", EndList),
    ("glCallList", CallList),
    ("glCallLists", CallList),
    ("glGenLists", GenLists),
    ("glDeleteLists", DeleteLists),
    ("glListBase", State),
    // Objects.
    ("glGenerateMipmap", Change(Class::Texture)),
    ("glGenerateTextureMipmap", Named),
    ("glGen*", Generate),
    ("glCreate*", Generate),
    ("glDeleteSync", Keep),
    ("glFenceSync", Keep),
    ("glClientWaitSync", Keep),
    ("glWaitSync", Keep),
    ("glDelete*", Delete),
    ("glBindTexture", Bind(Class::Texture)),
    ("glBindBuffer", Bind(Class::Buffer)),
    ("glBindFramebuffer", Bind(Class::Framebuffer)),
    ("glBindRenderbuffer", Bind(Class::Renderbuffer)),
    ("glBindVertexArray", Bind(Class::VertexArray)),
    ("glBindProgramPipeline", Bind(Class::Pipeline)),
    ("glBindTransformFeedback", Bind(Class::TransformFeedback)),
    ("glBindProgram", Bind(Class::Assembly)),
    ("glBindFragmentShader", Bind(Class::Assembly)),
    ("glUseProgram", Bind(Class::Program)),
    ("glUseProgramObject", Bind(Class::Program)),
    ("glBindSampler", BindAt(Class::Sampler)),
    ("glBindSamplers", BindRange(Class::Sampler)),
    ("glBindTextures", BindRange(Class::Texture)),
    ("glBindImageTextures", BindRange(Class::Texture)),
    ("glBindBuffersBase", BindRange(Class::Buffer)),
    ("glBindBuffersRange", BindRange(Class::Buffer)),
    ("glBindTextureUnit", BindAt(Class::Texture)),
    ("glBindImageTexture", BindAt(Class::Texture)),
    ("glBindBufferBase", BindAt(Class::Buffer)),
    ("glBindBufferRange", BindAt(Class::Buffer)),
    ("glBindBufferOffset", BindAt(Class::Buffer)),
    ("glBindVertexBuffer*", Source),
    ("glBindAttribLocation", Named),
    ("glBindFragDataLocation*", Named),
    // What is bound changes.
    ("glTexImage*", Replace(Class::Texture)),
    ("glCompressedTexImage*", Replace(Class::Texture)),
    ("glTexSubImage*", Change(Class::Texture)),
    ("glCopyTexImage*", Replace(Class::Texture)),
    ("glCopyTexSubImage*", Change(Class::Texture)),
    ("glCompressedTexSubImage*", Change(Class::Texture)),
    ("glTexStorage*", Change(Class::Texture)),
    ("glTexParameter*", Change(Class::Texture)),
    ("glTexBuffer*", Change(Class::Texture)),
    ("glTexPage*", Change(Class::Texture)),
    ("glEGLImageTargetTex*", Change(Class::Texture)),
    ("glBufferData", Replace(Class::Buffer)),
    ("glBufferSubData", Change(Class::Buffer)),
    ("glBufferStorage*", Change(Class::Buffer)),
    ("glBufferParameter*", Change(Class::Buffer)),
    ("glMapBuffer*", Map),
    ("glUnmapBuffer", Change(Class::Buffer)),
    ("glFlushMappedBufferRange", Change(Class::Buffer)),
    ("glRenderbufferStorage*", Change(Class::Renderbuffer)),
    ("glEGLImageTargetRenderbuffer*", Change(Class::Renderbuffer)),
    ("glFramebuffer*", Change(Class::Framebuffer)),
    ("glProgramString", Change(Class::Assembly)),
    ("glProgramLocalParameter*", Change(Class::Assembly)),
    ("glUniformBlockBinding", Named),
    ("glUniform*", Uniform),
    ("glBeginQuery*", Named),
    ("glEndQuery*", Finish(Class::Query)),
    ("glQueryCounter", Named),
    ("glBeginTransformFeedback", Capture),
    ("glEndTransformFeedback", Capture),
    ("glVertexAttribPointer", Source),
    ("glVertexAttribIPointer", Source),
    ("glVertexAttribLPointer", Source),
    ("glVertexAttribFormat", Source),
    ("glVertexAttribIFormat", Source),
    ("glVertexAttribLFormat", Source),
    ("glVertexAttribBinding", Source),
    ("glVertexAttribDivisor", Source),
    ("glVertexBindingDivisor", Source),
    ("glEnableVertexAttribArray", Source),
    ("glDisableVertexAttribArray", Source),
    ("glEnableClientState", Source),
    ("glDisableClientState", Source),
    ("glVertexPointer", Source),
    ("glNormalPointer", Source),
    ("glColorPointer", Source),
    ("glSecondaryColorPointer", Source),
    ("glTexCoordPointer", Source),
    ("glFogCoordPointer", Source),
    ("glIndexPointer", Source),
    ("glEdgeFlagPointer", Source),
    ("glInterleavedArrays", Accumulate),
    // Matrices.
    ("glMatrixMode", MatrixMode),
    ("glLoadIdentity", LoadMatrix),
    ("glLoadMatrix*", LoadMatrix),
    ("glLoadTransposeMatrix*", LoadMatrix),
    ("glMultMatrix*", MultMatrix),
    ("glMultTransposeMatrix*", MultMatrix),
    ("glTranslate*", MultMatrix),
    ("glRotate*", MultMatrix),
    ("glScale*", MultMatrix),
    ("glOrtho*", MultMatrix),
    ("glFrustum*", MultMatrix),
    ("glPushMatrix", PushMatrix),
    ("glPopMatrix", PopMatrix),
    ("glPushAttrib", Attributes),
    ("glPopAttrib", Attributes),
    ("glPushClientAttrib", Attributes),
    ("glPopClientAttrib", Attributes),
    ("glPushDebugGroup", Keep),
    ("glPopDebugGroup", Keep),
    // Values that are set.
    ("glEnable", Switch),
    ("glDisable", Switch),
    ("glActiveTexture", ActiveTexture),
    ("glClientActiveTexture", ClientTexture),
    ("glViewportArray*", Accumulate),
    ("glScissorArray*", Accumulate),
    ("glDepthRangeArray*", Accumulate),
    ("glRasterPos*", Accumulate),
    ("glWindowPos*", Accumulate),
    ("glVertexAttrib*", State),
    ("glColorMaterial", State),
    ("glColor*", State),
    ("glSecondaryColor*", State),
    ("glNormal*", State),
    ("glTexCoord*", State),
    ("glMultiTexCoord*", State),
    ("glFogCoord*", State),
    ("glIndex*", State),
    ("glEdgeFlag*", State),
    ("glMaterial*", State),
    ("glBlend*", State),
    ("glDepth*", State),
    ("glStencil*", State),
    ("glClearColor*", State),
    ("glClearDepth*", State),
    ("glClearStencil", State),
    ("glClearAccum", State),
    ("glClearIndex", State),
    ("glCullFace", State),
    ("glFrontFace", State),
    ("glPolygonMode", State),
    ("glPolygonOffset*", State),
    ("glLineWidth*", State),
    ("glLineStipple", State),
    ("glPointSize*", State),
    ("glPointParameter*", State),
    ("glShadeModel", State),
    ("glLogicOp", State),
    ("glAlphaFunc*", State),
    ("glFog*", State),
    ("glLight*", State),
    ("glTexEnv*", State),
    ("glTexGen*", State),
    ("glScissor*", State),
    ("glViewport*", State),
    ("glPixelStore*", State),
    ("glPixelTransfer*", State),
    ("glPixelZoom", State),
    ("glHint", State),
    ("glSampleCoverage*", State),
    ("glSampleMask*", State),
    ("glMinSampleShading", State),
    ("glPatchParameter*", State),
    ("glPrimitiveRestartIndex", State),
    ("glProvokingVertex", State),
    ("glClampColor", State),
    ("glClipPlane*", State),
    ("glClipControl", State),
    ("glPrimitiveBoundingBox", State),
    // What names its objects.
    ("glTexture*", Named),
    ("glCompressedTextureSubImage*", Named),
    ("glNamed*", Named),
    ("glVertexArray*", Named),
    ("glEnableVertexArrayAttrib", Named),
    ("glDisableVertexArrayAttrib", Named),
    ("glSamplerParameter*", Named),
    ("glAttachShader", Named),
    ("glAttachObject", Named),
    ("glDetachShader", Named),
    ("glDetachObject", Named),
    ("glShaderSource", Named),
    ("glShaderBinary", Named),
    ("glCompileShader*", Named),
    ("glSpecializeShader", Named),
    ("glLinkProgram", Named),
    ("glProgramBinary", Named),
    ("glProgramParameter*", Named),
    ("glProgramUniform*", Named),
    ("glShaderStorageBlockBinding", Named),
    ("glTransformFeedbackVaryings", Named),
    ("glUseProgramStages", Named),
    ("glActiveShaderProgram", Named),
    // Memory.
    ("memcpy", Copy),
    // Window systems. What is asked about a configuration tells a replayer what to choose. Frames end where the flags of the
    // call say so.
    ("glXGetFBConfigAttrib*", Config),
    ("eglGetConfigAttrib", Config),
    ("glXMakeCurrent*", MakeCurrent),
    ("glXMakeContextCurrent", MakeCurrent),
    ("eglMakeCurrent", MakeCurrent),
    ("wglMakeCurrent", MakeCurrent),
    ("wglMakeContextCurrent", MakeCurrent),
    ("CGLSetCurrentContext", MakeCurrent),
];

/// Letters of vendors, which end the names of extensions.
const VENDORS: &[&str] = &[
    "ARB", "EXT", "KHR", "OES", "NV", "NVX", "ATI", "AMD", "APPLE", "SGIS", "SGIX", "SGI", "IBM", "INTEL",
    "ANGLE", "MESA", "SUN", "QCOM", "IMG", "GREMEDY",
];

/// What a function does.
pub(super) fn action(name: &str) -> Action {
    // Window systems keep theirs: their rules are about whole names.
    let stem = VENDORS.iter().find_map(|vendor| name.strip_suffix(vendor)).unwrap_or(name);
    let fits = |pattern: &str| match pattern.strip_suffix('*') {
        Some(start) => stem.starts_with(start) || name.starts_with(start),
        None => stem == pattern || name == pattern,
    };
    RULES.iter().find(|(pattern, _)| fits(pattern)).map_or(Unknown, |(_, action)| *action)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_fits_holds() {
        for (name, expected) in [
            ("glGetUniformLocation", Named),
            ("glGetError", Query),
            ("glGenTextures", Generate),
            ("glGenerateMipmapEXT", Change(Class::Texture)),
            ("glGenLists", GenLists),
            ("glBindFramebufferEXT", Bind(Class::Framebuffer)),
            ("glDrawBuffers", Change(Class::Framebuffer)),
            ("glDrawArraysInstanced", Draw),
            ("glEnd", End),
            ("glEndList", EndList),
            ("glEndQueryARB", Finish(Class::Query)),
            ("glClear", Clear),
            ("glClearColor", State),
            ("glVertex3f", Vertex),
            ("glVertexAttrib4f", State),
            ("glVertexAttribPointerARB", Source),
            ("glColor3f", State),
            ("glColorPointer", Source),
            ("glUniformBlockBinding", Named),
            ("glUseProgramObjectARB", Bind(Class::Program)),
            ("glTexImage2D", Replace(Class::Texture)),
            ("glTextureSubImage2D", Named),
            ("glXMakeCurrent", MakeCurrent),
            ("glDispatchCompute", Unknown),
            ("ID3D11Device::CreateBuffer", Unknown),
        ] {
            assert_eq!(action(name), expected, "{name}");
        }
    }
}
